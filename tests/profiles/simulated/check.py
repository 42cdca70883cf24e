"""Is the analyzer right about jobs that are simulated, of fixed seeds and of those that it was wrong about?   check.py TRAINTRACE"""
import sys

import known
import measure
import scenario

# Each cause once, and the shares in turn: 0.2, none (a healthy twin), 0.4, 0.1, 0.3, 0.01 (a near miss).
COUNT = len(scenario.CAUSES)
SEEDS = [number + COUNT * (number % len(scenario.SHARES)) for number in range(COUNT)]
MOST_RANKS = 8  # for the time it takes
# Of the 26 that take enough time to be named, 22 were exact when this was written (the analyzer of the end of November 2026, all of SEEDS).
FLOOR = 18


def judge_seeds(traintrace):
    """What is wrong with the answers."""
    results = [measure.judge_seed((traintrace, seed, None, None, MOST_RANKS)) for seed in SEEDS]
    measure.table(results)
    wrong = [f"{result}" for result in results if result.kind in (measure.WRONG, measure.FAILED) or
             (result.kind == measure.ALARM and result.names_culprits)]
    for result in results:
        if result.kind in measure.ORDER:
            print(f"\n{result}")
    exact = sum(result.kind == measure.EXACT for result in results)
    if exact < FLOOR:
        wrong.append(f"{exact} of {len(SEEDS)} are exact, which were {FLOOR} or more")
    return wrong


def answers(traintrace, case):
    """Whether a known case is answered, and the finding that comes first."""
    made = scenario.given(case.cause, case.job, case.settings)
    made.cause.codes, made.cause.line = case.codes, case.line
    result = measure.judged(traintrace, case.label, made)
    good = result.kind == measure.EXACT and (not case.line or result.has_line) and (not case.gain or 0.8 <= result.gain <= 1.2)
    return good, f"{result}\n    gain {result.gain}, line {result.has_line}"


def judge_known(traintrace):
    wrong = []
    for case in known.KNOWN:
        good, text = answers(traintrace, case)
        if good and case.unanswered:
            wrong.append(f"{case.label}: is answered now, so it is no longer `unanswered`")
        elif not good and not case.unanswered:
            wrong.append(text)
        print(f"{'answered' if good else 'unanswered'}: {case.label}")
    return wrong


def main(traintrace):
    wrong = judge_known(traintrace) + judge_seeds(traintrace)
    if wrong:
        sys.exit("\n".join(["", "WRONG", *wrong]))


if __name__ == "__main__":
    main(sys.argv[1])
