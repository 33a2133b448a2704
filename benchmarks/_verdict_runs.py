"""The labelled runs of `verdicts.py`: faults with the findings that name them, and healthy runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

REWARDS = Path(__file__).with_name("_verdict_rewards.py")


@dataclass(frozen=True, slots=True)
class Run:
    """One run to train and to judge.

    Attributes:
        name: of its folder.
        settings: `K=V` over the demo's config.
        steps: optimizer steps.
        expected: ids of findings each of which names the fault; empty for a healthy run.
        begins: the first step at which the fault can be seen.
        within: steps after `begins` by which it has to be named.
        fault: started as `demo --fault`.
        sets: `K=V` for `grpo-tui set`, and the step from which it is applied; the fault begins there.
        stops: the step at which the run ends and is resumed.
    """

    name: str
    settings: tuple[str, ...] = ()
    steps: int = 120
    expected: tuple[str, ...] = ()
    begins: int = 1
    within: int = 20
    fault: str = ""
    sets: tuple[int, str] | None = None
    stops: int = 0


def _rewards(*given: str) -> str:
    """Return the setting of reward functions: `NAME*WEIGHT` of the file beside this, or `demo:NAME`."""
    listed = []
    for one in given:
        name, _, weight = one.partition("*")
        source = f"rewards.py:{name[5:]}" if name.startswith("demo:") else f"{REWARDS}:{name}"
        known = name.removeprefix("demo:").replace("_reward", "").replace("_format", "")
        listed.append(f"{{name: {known}, source: '{source}', weight: {weight or 1.0}}}")
    return f"grpo_tui.rewards=[{', '.join(listed)}]"


def _demo(name: str, steps: int, expected: tuple[str, ...], begins: int = 1, within: int = 20) -> Run:
    return Run(name, (), steps, expected, begins, within, fault=name)


BROKE = ("policy.broke", "policy.collapse", "policy.reward-fell", "signal.identical")
SPARSE = _rewards("demo:correctness")
FAULTS = (
    _demo("lr-too-high", 40, ("policy.broke",), begins=2, within=5),
    _demo("flat-rewards", 30, ("signal.prompt-only",)),
    _demo("first-digit", 110, ("signal.format-only",), within=100),
    _demo("truncated", 30, ("signal.masked",)),
    _demo("unscored", 30, ("signal.unscored",)),
    _demo("infinite-reward", 30, ("signal.not-finite",)),
    _demo("rewards-cancel", 30, ("signal.cancels",)),
    _demo("drowned-reward", 60, ("signal.reward-drowned",), within=40),
    _demo("long-answers", 120, ("policy.truncation", "policy.no-end-token", "policy.broke"), within=100),
    _demo("no-end-token", 40, ("policy.no-end-token", "policy.truncation")),
    _demo("low-temperature", 40, ("signal.identical", "signal.equal")),
    _demo("lr-too-low", 200, ("policy.learning-rate-low",), within=180),
    _demo("lr-ended", 90, ("policy.learning-rate-ended",), begins=40),
    _demo("slow-reward", 25, ("machine.slow-reward",)),
    _demo("reward-raises", 25, ("run.failed",), begins=15),
    _demo("crash", 25, ("run.failed",), begins=20),
    Run("lr-7-times", ("learning_rate=1.5e-3",), 90, (*BROKE, "signal.equal"), within=70),
    Run("lr-raised-later", (), 110, BROKE, within=20, sets=(50, "learning_rate=5e-3")),
    Run("lr-1e-8", ("learning_rate=1e-8",), 200, ("policy.learning-rate-low",), within=180),
    Run("constant", (_rewards("constant"),), 30, ("signal.constant",)),
    Run("never-earned", (_rewards("never_earned"),), 30, ("signal.constant", "signal.all-wrong")),
    Run(
        "one-never-earned",
        (_rewards("never_earned*2.0", "demo:format_reward", "demo:incremental_format"),),
        60,
        ("signal.reward-stuck",),
        within=30,
    ),
    Run(
        "hardly-earned",
        (_rewards("hardly_ever_earned"),),
        60,
        ("signal.constant", "signal.all-wrong"),
        within=40,
    ),
    Run(
        "too-easy",
        (_rewards("nearly_always_earned"),),
        60,
        ("signal.all-correct", "signal.constant"),
        within=40,
    ),
    Run("always-nan", (_rewards("always_nan"),), 30, ("signal.not-finite", "policy.gradient-nan")),
    Run("some-infinite", (_rewards("some_infinite"),), 30, ("signal.not-finite", "policy.gradient-nan")),
    Run(
        "loud-noise", (_rewards("demo:correctness", "loud_noise"),), 60, ("signal.reward-drowned",), within=40
    ),
    Run(
        "format-times-100",
        (_rewards("demo:correctness", "demo:format_reward*100.0"),),
        60,
        ("signal.reward-drowned",),
        within=40,
    ),
    Run("cut-at-10", ("max_completion_length=10",), 40, ("policy.truncation",)),
    Run(
        "entropy-penalty", ("entropy_coef=-4.0",), 80, (*BROKE, "signal.all-wrong", "signal.equal"), within=60
    ),
    Run("entropy-bonus", ("entropy_coef=1.0",), 80, (*BROKE, "policy.truncation"), within=60),
    Run("top-k-1", ("top_k=1",), 40, ("signal.identical", "signal.equal")),
    Run(
        "temperature-3",
        ("temperature=3.0",),
        40,
        ("policy.noise",),
    ),
    Run("kl-runs-away", ("beta=0.001", "learning_rate=1.2e-3"), 100, ("policy.kl", *BROKE), within=90),
    Run("repeats", (_rewards("repeats"),), 120, ("policy.repetition", "policy.truncation"), within=100),
    Run(
        "abstains-later",
        (_rewards("abstains_later*2.0", "demo:format_reward*0.5"),),
        70,
        ("machine.reward-fails",),
        begins=30,
        within=30,
    ),
    Run("fails-often", (_rewards("fails_often", "demo:format_reward"),), 25, ("run.failed",), begins=15),
    Run(
        "overfit",
        (
            "grpo_tui.holdout=0",
            f"grpo_tui.dataset={REWARDS}:same_sum_rows",
            f"grpo_tui.eval_dataset={REWARDS}:other_rows",
            "eval_strategy=steps",
            "eval_steps=10",
            "num_generations_eval=8",
            "per_device_eval_batch_size=64",
            SPARSE,
        ),
        150,
        ("policy.held-out",),
        within=150,
    ),
    Run(
        "gradient-spikes",
        (_rewards("outlier", "demo:format_reward"), "scale_rewards=none"),
        80,
        ("policy.gradient-spikes", "signal.reward-drowned"),
        begins=10,
        within=60,
    ),
    Run("no-gradient", ("beta=10.0", "learning_rate=1e-7"), 200, ("policy.learning-rate-low",), within=180),
    Run(
        "paid-by-length",
        (_rewards("paid_by_length"), "max_completion_length=120"),
        120,
        ("policy.length-bought",),
        within=100,
    ),
    Run("random-reward", (_rewards("loud_noise"),), 160, ("signal.reward-random",)),
)
EVAL = ("eval_strategy=steps", "eval_steps=10", "num_generations_eval=8", "per_device_eval_batch_size=64")
HEALTHY = (
    Run("demo"),
    Run("beta-0.04", ("beta=0.04",)),
    Run("beta-0.2", ("beta=0.2",)),
    Run("two-iterations", ("num_iterations=2", "steps_per_generation=2")),
    Run("two-iterations-beta", ("num_iterations=2", "steps_per_generation=2", "beta=0.04"), 150),
    Run("evaluated", EVAL),
    Run("sparse", (SPARSE,), 180),
    Run("sparse-small-batch", (SPARSE, "per_device_train_batch_size=16"), 250),
    Run(
        "none-for-half", (_rewards("only_odd*2.0", "demo:format_reward*0.5", "demo:incremental_format*0.5"),)
    ),
    Run("none-for-a-third", (_rewards("sometimes_abstains*2.0", "demo:incremental_format"),)),
    Run("long-warm-up", ("lr_scheduler_type=linear", "warmup_steps=50"), 160),
    Run(
        "cosine",
        ("lr_scheduler_type=cosine", "learning_rate=3e-4"),
    ),
    Run("gdpo", ("multi_objective_aggregation=normalize_then_sum",)),
    Run("gspo", ("importance_sampling_level=sequence",)),
    Run(
        "gspo-narrow",
        (
            "importance_sampling_level=sequence",
            "loss_type=grpo",
            "epsilon=3e-4",
            "epsilon_high=4e-4",
            "steps_per_generation=4",
        ),
    ),
    Run("dr-grpo", ("loss_type=dr_grpo", "scale_rewards=none")),
    Run("bnpo", ("loss_type=bnpo",)),
    Run("grpo-loss", ("loss_type=grpo", "scale_rewards=batch")),
    Run("cispo", ("loss_type=cispo", "epsilon_high=5.0")),
    Run("sapo", ("loss_type=sapo",)),
    Run("longer-rightly", (_rewards("demo:correctness*2.0", "full_length", "demo:format_reward"),)),
    Run("converged", ("learning_rate=3e-4",), 350),
    Run("converged-eight-prompts", (f"grpo_tui.dataset={REWARDS}:eight_rows", "grpo_tui.holdout=0"), 200),
    Run("group-of-16", ("num_generations=16",)),
    Run("group-of-2", ("num_generations=2",), 150),
    Run("small-batch", ("per_device_train_batch_size=16", "num_generations=4"), 200),
    Run("accumulated", ("per_device_train_batch_size=32", "gradient_accumulation_steps=2")),
    Run("temperature-0.7", ("temperature=0.7",)),
    Run("temperature-1.3", ("temperature=1.3",)),
    Run("top-p-0.9", ("top_p=0.9",)),
    Run("slow-but-learning", ("learning_rate=5e-5",), 200),
    Run("penalty", (_rewards("demo:correctness*2.0", "penalty"),)),
    Run("masked-now-and-then", ("mask_truncated_completions=true", "max_completion_length=30")),
    Run("resumed", (), stops=60),
    Run("weights-changed", (), sets=(50, "reward_weights=[3.0,0.25,0.25]")),
    Run("rate-lowered", (), sets=(50, "learning_rate=5e-5")),
    Run("entropy-bonus-small", ("entropy_coef=0.01",)),
    Run("lora", ("use_peft=true", "lora_r=8", "lora_target_modules=all-linear", "learning_rate=2e-3")),
    Run("logged-every-5", ("logging_steps=5",), 150),
)
