"""The catalogue's entries for rewards, completions, sampling and tools.

Sources: what a value is, from the source of TRL 1.16 (`trainer/grpo_trainer.py`); figures of a healthy run,
where given, from axolotl's page on training stability (`docs/training_stability.qmd`) unless said otherwise.
"""

from __future__ import annotations

from grpo_tui.core.metric import Metric

REWARD = (
    Metric(
        "reward",
        "reward",
        "reward",
        "Mean over the batch of the weighted sum of all reward functions. Completions that no function "
        "scored are left out.",
        "Rises, with noise, and levels off. Compare stretches of steps, not single ones.",
        group="reward",
        better="up",
        progress=True,
    ),
    Metric(
        "reward_std",
        "reward std over the batch",
        "batch std",
        "Standard deviation of the total over the whole batch, not inside a group. It can be large while "
        "every group is flat, because prompts differ in difficulty.",
        "Above 0. For what the policy learns from, look at the spread inside a group instead.",
        group="reward",
    ),
    Metric(
        "frac_reward_zero_std",
        "share of flat groups, as TRL counts",
        "flat (TRL)",
        "Share of groups whose totals are all equal; such a group has advantage 0 and teaches nothing. It "
        "reads 0 for groups in which no completion was scored, one total is infinite or all completions "
        "are masked, though they teach nothing either. With scale_rewards: batch or normalize_then_sum TRL "
        "compares the whole batch instead, so it is 0 or 1.",
        "Below 0.8, and not rising for long. All flat at the highest total: the prompts are too easy. "
        "At the lowest: too hard.",
        "share",
        "reward",
        "down",
    ),
    Metric(
        "grpo_tui/spread",
        "spread inside a group",
        "spread",
        "Computed here from the recorded completions: the standard deviation of the total inside a group, "
        "averaged over the groups of a step. Advantages come from this spread alone.",
        "Clearly above 0; it shrinks as the policy settles. At 0 nothing is learned.",
        group="reward",
        computed=True,
    ),
    Metric(
        "grpo_tui/flat_share",
        "share of flat groups, counted here",
        "flat",
        "Computed here from the recorded advantages: the share of a step's groups that teach nothing, "
        "because all advantages are 0 or the loss leaves every completion out (mask_truncated_completions).",
        "Low. A share that grows means that fewer and fewer prompts teach anything.",
        "share",
        "reward",
        "down",
        computed=True,
    ),
    Metric(
        "grpo_tui/flat_top",
        "share of groups flat at the highest total",
        "flat top",
        "Computed here: the share of a step's groups in which every completion got the highest total seen "
        "in this run. With a reward for right answers these are the prompts that are always solved.",
        "Grows slowly as the task is learned. Near 1 the prompts are too easy to teach more.",
        "share",
        "reward",
        computed=True,
    ),
    Metric(
        "grpo_tui/flat_bottom",
        "share of groups flat at the lowest total",
        "flat low",
        "Computed here: the share of a step's groups in which every completion got the lowest total seen "
        "in this run. With a reward for right answers these are the prompts that are never solved.",
        "Falls. Near 1 the prompts are too hard, or the reward does not recognise a right answer.",
        "share",
        "reward",
        "down",
        computed=True,
    ),
    Metric(
        "grpo_tui/masked_share",
        "share of groups masked as a whole",
        "masked",
        "Computed here: the share of a step's groups in which every completion was truncated and "
        "mask_truncated_completions keeps all of them out of the loss.",
        "0. Otherwise raise max_completion_length.",
        "share",
        "reward",
        "down",
        computed=True,
    ),
)

COMPLETIONS = (
    Metric(
        "completions/mean_length",
        "completion length, tokens",
        "length",
        "Mean number of tokens the model wrote per completion; what tools returned does not count.",
        "Moves slowly. A steep rise while the reward does not follow is padding; a fall to a few tokens "
        "is a policy that gave up, or found a short way to the reward.",
        "tokens",
        "completions",
    ),
    Metric(
        "completions/min_length",
        "shortest completion, tokens",
        "shortest",
        "Number of tokens in the shortest completion of the batch.",
        "Above 1: a completion of one token is an immediate end.",
        "tokens",
        "completions",
    ),
    Metric(
        "completions/max_length",
        "longest completion, tokens",
        "longest",
        "Number of tokens in the longest completion of the batch.",
        "Below `max_completion_length`; there it means that some were cut off.",
        "tokens",
        "completions",
    ),
    Metric(
        "completions/clipped_ratio",
        "share of completions cut off",
        "cut off",
        "Share of completions that reached `max_completion_length` before they ended by themselves.",
        "Below 0.3; above 0.8 raise `max_completion_length`. A completion cut off before its answer "
        "cannot be scored for it.",
        "share",
        "completions",
        "down",
    ),
    Metric(
        "completions/mean_terminated_length",
        "length of those that ended, tokens",
        "ended",
        "Mean number of tokens over the completions that ended by themselves; 0 when none did.",
        "Follows the mean length; far below it, the mean is made by those cut off.",
        "tokens",
        "completions",
    ),
    Metric(
        "completions/min_terminated_length",
        "shortest that ended, tokens",
        "min ended",
        "Number of tokens in the shortest completion that ended by itself; 0 when none did.",
        "Above 1 while any completion ends by itself.",
        "tokens",
        "completions",
    ),
    Metric(
        "completions/max_terminated_length",
        "longest that ended, tokens",
        "max ended",
        "Number of tokens in the longest completion that ended by itself; 0 when none did.",
        "Below `max_completion_length` with room to spare.",
        "tokens",
        "completions",
    ),
    Metric(
        "num_tokens",
        "tokens seen so far",
        "tokens",
        "Prompt and completion tokens of all training batches and ranks since the start, a prompt counted "
        "once per completion.",
        "A straight line; it bends as completions grow longer or shorter.",
        "tokens",
        "completions",
    ),
    Metric(
        "num_input_tokens_seen",
        "input tokens seen so far",
        "input tokens",
        "The trainer's own count of tokens, logged when `include_num_input_tokens_seen` is set.",
        "A straight line.",
        "tokens",
        "completions",
    ),
    Metric(
        "tools/call_frequency",
        "tool calls per completion",
        "tool calls",
        "Number of tool calls divided by the number of completions.",
        "Above 0 where the task needs tools; at 0 the policy has stopped calling them.",
        "calls",
        "completions",
    ),
    Metric(
        "tools/failure_frequency",
        "share of tool calls that failed",
        "tool failures",
        "Share of the tool calls that raised or could not be parsed; 0 when there was no call.",
        "Falls towards 0. Near 1 look at the calls in the completions: it is often their format.",
        "share",
        "completions",
        "down",
    ),
)

SAMPLING = (
    Metric(
        "sampling/sampling_logp_difference/mean",
        "vLLM against trainer, mean log-prob gap",
        "logp gap",
        "Mean absolute difference between the log-probabilities that vLLM sampled with and those the "
        "trainer computes for the same tokens.",
        "Below 0.1; above 1 the two run different models: other weights, precision or temperature.",
        "nats",
        "sampling",
        "down",
    ),
    Metric(
        "sampling/sampling_logp_difference/max",
        "vLLM against trainer, largest log-prob gap",
        "max logp gap",
        "Largest absolute difference between vLLM's and the trainer's log-probability of a token in "
        "the batch.",
        "Single tokens may differ by much; what matters is that it does not grow step by step.",
        "nats",
        "sampling",
        "down",
    ),
    Metric(
        "sampling/importance_sampling_ratio/min",
        "importance ratio to vLLM, smallest",
        "IS min",
        "Smallest ratio of the trainer's probability to vLLM's, by which the loss is corrected.",
        "Above 0.1; near 0 whole tokens or sequences lose their weight.",
        "ratio",
        "sampling",
    ),
    Metric(
        "sampling/importance_sampling_ratio/mean",
        "importance ratio to vLLM, mean",
        "IS mean",
        "Mean ratio of the trainer's probability to vLLM's, by which the loss is corrected.",
        "Near 1.",
        "ratio",
        "sampling",
    ),
    Metric(
        "sampling/importance_sampling_ratio/max",
        "importance ratio to vLLM, largest",
        "IS max",
        "Largest ratio of the trainer's probability to vLLM's after the correction's cap.",
        "Below the cap; at the cap in every step the correction is at work all the time.",
        "ratio",
        "sampling",
    ),
)
