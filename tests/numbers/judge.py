"""judge.py BUILD CASE RANKS CODE [KEY=VALUE ..]: what is said about the numbers that job.py fetched on simgpu under the preload.

CODE alone at warning or above (`-`: nothing, `CODE~`: CODE as info and nothing above it, `CODE,CODE`: these in that order, of a job that fails), at the line of job.py
that is marked `# AT`, with sides=RANKS and these values.  NAMES in capitals are settings of the job's environment."""
import json
import sys
import tempfile

from recorded import line_of, record, traintrace

build, case, ranks, code = sys.argv[1:5]
given = dict(argument.split("=", 1) for argument in sys.argv[5:])
settings = {key: value for key, value in given.items() if key.isupper()}
wanted = {key: value for key, value in given.items() if not key.isupper()}


def problem(findings):
    alarms = [finding["code"] for finding in findings if finding["severity"] != "info"]
    if alarms != [each for each in code.split(",") if each != "-" and not each.endswith("~")]:
        return f"expected {code}, found {alarms}"
    numeric = [finding for finding in findings if finding["code"].startswith("numeric.")]
    if [finding["code"] for finding in numeric] != [each.rstrip("~") for each in code.split(",") if each.startswith("numeric.")]:
        return f"expected {code}, found {[finding['code'] for finding in numeric]}"
    return wrong_in(numeric[0]) if numeric else None


def wrong_in(finding):
    blamed = json.dumps(finding.get("culprits", []), separators=(",", ":"))
    if blamed != wanted.pop("culprits", "[]"):
        return f"{blamed} are blamed"
    where = finding["where"][0]
    for key, value in wanted.items():
        found = (where["line"] if key == "at" else json.dumps(finding["sides"], separators=(",", ":")) if key == "sides"
                 else finding["values"].get(key))
        expected = line_of(value) if key == "at" else value
        if str(found) != str(expected):
            return f"{key} is {found}, not {expected}"
    return None


def main():
    with tempfile.TemporaryDirectory(prefix="numbers.") as folder:
        record(build, case, ranks, folder, fails="," in code, **settings)
        report = json.loads(traintrace(build, "analyze", f"{folder}/traces", "--format=json"))
        wrong = problem(report["findings"])
        if wrong:
            print(json.dumps(report, indent=1), traintrace(build, "report", f"{folder}/traces", "--by=scalar"))
    print(f"WRONG: {wrong}" if wrong else "ok: " + report["verdict"])
    return 1 if wrong else 0


sys.exit(main())
