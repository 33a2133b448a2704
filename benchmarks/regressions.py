"""Run the tests of each fault that people met, and print a line for each.

    python benchmarks/regressions.py            every fault
    python benchmarks/regressions.py resume     those whose words hold "resume"

Exit 0 when all hold. Takes some minutes on two cores, because real trainings run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROCESSES, TRAIN, CLI = "tests/processes/", "tests/train/", "tests/cli/"
REWARDS, PREFLIGHT, UI = "tests/rewards/", "tests/preflight/", "tests/ui/"

FAULTS: dict[str, tuple[str, ...]] = {
    "a pickle in a run folder runs at a look": (
        f"{PROCESSES}test_hostile_folder.py::test_a_look_at_a_folder_of_somebody_else_does_nothing",
        "tests/test_no_pickle.py",
    ),
    "a pid in a run folder is signalled": ("tests/supervisor/test_proof.py",),
    "a pipe, device or link hangs a look": (
        f"{PROCESSES}test_hostile_folder.py::test_no_file_of_a_run_folder_makes_a_look_hang_or_break",
        "tests/store/test_json_file.py",
    ),
    "an unreadable value in a record stops a view or another start": (f"{CLI}test_unreadable_values.py",),
    "control bytes of a record reach the terminal": (f"{CLI}test_terminal_output.py",),
    "a reward that replaces json.dumps spoils the record; its classes are not found in a process pool": (
        f"{PROCESSES}test_user_code.py",
        f"{REWARDS}test_lab.py::test_a_function_sends_classes_of_its_file_to_processes_of_its_own",
    ),
    "groups of equal totals are called flat though they teach": (
        f"{TRAIN}test_verdicts.py::test_equal_totals_with_advantages_teach",
    ),
    "masked completions look as if they taught": (
        f"{TRAIN}test_verdicts.py::test_what_the_loss_leaves_out_is_marked_everywhere",
    ),
    "a number that the first step refuses passes the check": ("tests/config/test_ranges.py",),
    "a metric that no evaluation logs chooses the best model": (f"{PREFLIGHT}test_metric_names.py",),
    "the model gets the repr of a list as its prompt": (
        f"{PREFLIGHT}test_child_data.py::test_a_prompt_is_compared_with_what_the_template_makes_of_it",
    ),
    "a column of images for a text model": (
        f"{PREFLIGHT}test_child_data.py::test_a_column_with_a_meaning_for_trl_is_judged_by_the_model",
    ),
    "a constant reward, messages taken for text, a column of numbers compared with text": (
        f"{REWARDS}test_reward_cases.py",
        f"{PREFLIGHT}test_child_data.py::test_an_answer_that_a_csv_loses_is_told_from_the_file",
    ),
    "a finished run cannot be extended": (f"{TRAIN}test_resume.py::test_a_finished_run_is_extended",),
    "an option is dropped without a word": (f"{CLI}test_every_option.py",),
    "train_loss differs after a resume": (
        f"{TRAIN}test_resume.py::test_an_unchanged_resume_keeps_the_batch_and_says_nothing_of_it",
    ),
    "wide characters are cut off, an offered value is not replaced": (f"{UI}test_train_pane.py",),
    "a typed question is asked without the system prompt of training": (
        f"{TRAIN}test_settings.py::test_a_typed_question_is_asked_as_in_training",
    ),
    "set temperature is refused in mixed precision": (
        f"{TRAIN}test_steering_changes_nothing.py::test_a_temperature_set_in_mid_run_equals_a_run_configured_so",
    ),
    "a GPU that another process holds passes the check": (f"{CLI}test_plan.py",),
    "a resume ignores settings that transformers takes from the checkpoint": (
        f"{TRAIN}test_resume.py::test_settings_that_transformers_takes_from_a_checkpoint_are_those_of_the_config",
    ),
    "a resume trains on the batch of other settings, or dies of it": (
        f"{TRAIN}test_resume.py::test_a_batch_that_a_changed_setting_would_have_made_otherwise_is_not_trained_on",
    ),
    "a sample leaves the parameters of a sharded model gathered": (f"{TRAIN}test_sharded.py",),
    "a tool's answer counts as what the model wrote": (f"{TRAIN}test_turns.py",),
    "a clean stop of several ranks leaves a traceback": (
        (
            f"{PROCESSES}test_ranks.py::test_two_ranks_pause_beyond_their_time_out_change_save_stop_and_resume"
            "_and_a_killed_one_is_named"
        ),
    ),
    "running out of memory names no setting": (f"{TRAIN}test_out_of_memory.py",),
    "what was set is lost at a resume": (
        f"{TRAIN}test_resume.py::test_what_was_set_counts_after_every_resume_at_whichever_step_it_was_asked",
    ),
    "code of a foreign run or config runs without a yes": (f"{REWARDS}test_consent.py",),
}


def holds(tests: tuple[str, ...]) -> str:
    """Return the last line of pytest for these tests, empty when one failed or none ran."""
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else ""


def main() -> int:
    """Run what was asked for; 1 when a fault is back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="words that the fault has to hold")
    wanted = " ".join(parser.parse_args().words)
    failed = 0
    for fault, tests in FAULTS.items():
        if wanted not in fault:
            continue
        began = time.monotonic()
        said = holds(tests)
        failed += not said
        print(
            f"{'ok    ' if said else 'FAILED'} {time.monotonic() - began:6.1f} s  {fault}: {said}", flush=True
        )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
