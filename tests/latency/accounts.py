"""Conservation: what GPUs have lost has a name or is said to have none, to the ns; and a healthy run has lost little that has none."""

MOST_UNNAMED = 0.1  # of the window


def unaccounted(report, table):
    """What does not add up between `analyze` and `report --by=rank`, or None."""
    lost = {(row["rank"], row["device"]): row for row in report["lost_time"]}
    healthy = any(finding["code"] == "run.healthy" for finding in report["findings"])
    told = any(finding["code"] == "latency.unattributed" for finding in report["findings"])
    if sorted(lost) != sorted((row["rank"], row["device"]) for row in table):
        return f"lost time of {sorted(lost)}, but GPUs {[(row['rank'], row['device']) for row in table]}"
    for row in table:
        each = lost[row["rank"], row["device"]]
        exposed = row["exposed_communication_ns"] + row["exposed_memory_ns"]
        if each["lost_ns"] != row["idle_ns"] + exposed or each["window_ns"] != row["window_ns"]:
            return f"{each} was lost, but the report says {row['idle_ns']} ns idle and {exposed} ns exposed"
        if each["named_ns"] + each["unattributed_ns"] != each["lost_ns"] or min(each["named_ns"], each["unattributed_ns"]) < 0:
            return f"does not add up: {each}"
        if not (0 <= each["start_up_ns"] <= each["named_ns"] and 0 < each["loop_ns"] <= each["window_ns"]):
            return f"start-up is no part of it: {each}"
        # What the profiler itself takes is nobody's loss.
        if healthy and each["unattributed_ns"] - row["profiler_idle_ns"] > MOST_UNNAMED * each["window_ns"]:
            return f"healthy, but {each['unattributed_ns']} of {each['window_ns']} ns are lost without a name"
        if not told and each["unattributed_ns"] - row["profiler_idle_ns"] > MOST_UNNAMED * each["window_ns"]:
            return f"{each['unattributed_ns']} of {each['window_ns']} ns are lost without a name, and no finding says so"
    return None


def not_replayed(causes):
    """What the replay with nothing left out misses of the recording, or None: 1 % at most."""
    recorded = [row for row in causes if row["cause"] == "none"]
    for row in recorded:
        if abs(row["replayed_ns"] - row["window_ns"]) > 0.01 * row["window_ns"]:
            return f"the replay takes {row['replayed_ns']} ns, not {row['window_ns']}: {row}"
    return None if recorded else "there is no replay"


def unsaid(report):
    """Without a timeline of the GPU there is no sum: what a healthy run does not say of that, or None."""
    if report.get("lost_time"):
        return f"lost time without a timeline: {report['lost_time']}"
    for finding in report["findings"]:
        if finding["code"] == "run.healthy" and (finding["certainty"] != "likely" or "host's calls only" not in finding["title"]):
            return f"healthy, but not as far as calls tell: {finding['certainty']}: {finding['title']}"
        costs = [line for line in finding["evidence"] if "lower bound" in line]
        if finding["code"].startswith("latency.") and finding["severity"] != "info" and not costs:
            return f"{finding['code']} is not said to be a lower bound"
    return None
