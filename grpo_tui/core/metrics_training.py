"""The catalogue's entries for the policy, the optimizer and time.

Sources: what a value is, from the source of TRL 1.16 (`trainer/grpo_trainer.py`) and of transformers'
`Trainer`; figures of a healthy run, where given, from axolotl's page on training stability
(`docs/training_stability.qmd`).
"""

from __future__ import annotations

from grpo_tui.core.metric import Metric

POLICY = (
    Metric(
        "kl",
        "KL",
        "KL",
        "Mean distance per token of the policy from the reference model. Logged only when `beta` is not 0; "
        "TRL's default is 0, and then there is no reference model to measure against.",
        "Grows slowly from 0 to at most about 0.5; above 2 the policy has left the reference. A jump calls "
        "for a lower learning rate or a higher `beta`.",
        "nats",
        "policy",
    ),
    Metric(
        "entropy",
        "entropy",
        "entropy",
        "Mean entropy of the policy's distribution over the next token, over the tokens of the completions.",
        "0.05 to 0.5 and falling slowly. Below 0.01 it has collapsed to one answer and explores no more; "
        "above 1 it does not settle.",
        "nats",
        "policy",
    ),
    Metric(
        "clip_ratio/region_mean",
        "share of tokens clipped",
        "clipped",
        "Share of tokens, or of sequences when the importance ratio is one per sequence, whose ratio "
        "left the trust region in the direction of their advantage, so that they give no gradient.",
        "Below 0.1; above 0.3 the updates are aggressive. It is 0 while every batch is used for a single "
        "update, because the policy has not moved yet.",
        "share",
        "policy",
    ),
    Metric(
        "clip_ratio/low_mean",
        "share of tokens clipped below",
        "clipped low",
        "Share of tokens with a negative advantage whose ratio fell below 1 - `epsilon`.",
        "Below 0.1 and of the size of the share clipped above.",
        "share",
        "policy",
    ),
    Metric(
        "clip_ratio/low_min",
        "share clipped below, smallest sequence",
        "low min",
        "The smallest share of tokens clipped below in any one sequence of the batch.",
        "0 nearly always.",
        "share",
        "policy",
    ),
    Metric(
        "clip_ratio/high_mean",
        "share of tokens clipped above",
        "clipped high",
        "Share of tokens with a positive advantage whose ratio rose above 1 + `epsilon_high`.",
        "Below 0.1 and of the size of the share clipped below.",
        "share",
        "policy",
    ),
    Metric(
        "clip_ratio/high_max",
        "share clipped above, largest sequence",
        "high max",
        "The largest share of tokens clipped above in any one sequence of the batch.",
        "Well below 1; at 1 a whole sequence gives no gradient.",
        "share",
        "policy",
    ),
    Metric(
        "cispo_clip_ratio",
        "share of tokens clipped, CISPO",
        "CISPO clip",
        "Share of tokens with a positive advantage whose weight was capped at `epsilon_high`; they "
        "still give a gradient. Logged with `loss_type: cispo`.",
        "Small; when it grows the policy moves far within one batch.",
        "share",
        "policy",
    ),
    Metric(
        "vespo/phi_seq_mean",
        "mean weight of a sequence, VESPO",
        "VESPO weight",
        "Mean of the weight that VESPO gives a sequence by how far the policy has moved from the one that "
        "sampled it. Logged with `loss_type: vespo`.",
        "Near 1; near 0 most sequences no longer count.",
        "weight",
        "policy",
    ),
)

OPTIMISATION = (
    Metric(
        "loss",
        "loss",
        "loss",
        "No progress signal. Advantages are centred in each group, so with one update per batch the loss is "
        "near 0 whatever is learned: its value is 0, its gradient is not. With `beta` above 0 the KL term "
        "makes it grow as the policy moves.",
        "Near 0, or growing slowly with the KL. Look at the reward instead.",
        group="optimisation",
    ),
    Metric(
        "policy_loss",
        "policy loss, without entropy bonus",
        "policy loss",
        "The loss before the entropy bonus is taken off; logged when an entropy bonus is set. No progress "
        "signal, for the same reason as the loss.",
        "Near 0.",
        group="optimisation",
    ),
    Metric(
        "entropy_coef",
        "entropy coefficient",
        "entropy coef",
        "Weight of the entropy bonus in the loss; it moves when the adaptive control is on.",
        "Constant, or between `entropy_coef_min` and `entropy_coef_max`; at the upper end the entropy stays "
        "below its target all the same.",
        group="optimisation",
    ),
    Metric(
        "aux_loss",
        "router loss of the experts",
        "router loss",
        "Load-balancing loss of a mixture-of-experts model, before its coefficient.",
        "Level; a rise means that few experts get most tokens.",
        group="optimisation",
    ),
    Metric(
        "grad_norm",
        "gradient norm",
        "grad norm",
        "Norm of the gradient before it is clipped to `max_grad_norm`.",
        "0.001 to 1; above 10 training is unstable. Exactly 0 means that no group had any spread.",
        group="optimisation",
    ),
    Metric(
        "learning_rate",
        "learning rate",
        "rate",
        "The optimizer's learning rate, of the first parameter group, as the schedule has it.",
        "Follows the schedule: a rise during warm-up, then level or falling.",
        group="optimisation",
    ),
    Metric(
        "epoch",
        "passes over the dataset",
        "epoch",
        "How often the dataset has been gone through, with the part of the present pass.",
        "A straight line.",
        "epochs",
        "optimisation",
    ),
    Metric(
        "total_flos",
        "floating-point operations of the run",
        "operations",
        "The trainer's estimate of all operations; logged once, at the end, and 0 where it has no estimate.",
        "Says nothing about health.",
        "operations",
        "optimisation",
    ),
    Metric(
        "train_loss",
        "mean loss of the run",
        "mean loss",
        "Mean of the loss over all steps; logged once, at the end. No progress signal, as the loss is none.",
        "Near 0.",
        group="optimisation",
    ),
)

TIME = (
    Metric(
        "step_time",
        "step time, s",
        "step time",
        "Seconds of the trainer's `training_step`, which generates, scores and computes gradients, "
        "summed over the accumulation of one optimizer step. The optimizer's own step, saving and "
        "evaluating are not in it.",
        "Level, or moving with the length of the completions. A jump is often a slow reward function.",
        "s",
        "time",
        "down",
    ),
    Metric(
        "grpo_tui/tokens_per_second",
        "tokens a second",
        "tokens/s",
        "Computed here: what `num_tokens` grew by from one logged row to the next, prompt and "
        "completion tokens of all ranks, divided by the step time of the steps between (`step_time` "
        "times their number).",
        "Level. It falls when generation waits for its longest completion or a reward function is slow.",
        "tokens/s",
        "time",
        "up",
        computed=True,
    ),
    Metric(
        "train_runtime",
        "duration of the run, s",
        "duration",
        "Seconds from the start of `train()` to its end, for this start of the run; logged once, at the end.",
        "Says nothing about health.",
        "s",
        "time",
    ),
    Metric(
        "train_samples_per_second",
        "samples a second, whole run",
        "samples/s",
        "Rows gone through by second of the whole run; logged once, at the end.",
        "Compare it between runs of the same settings.",
        "samples/s",
        "time",
        "up",
    ),
    Metric(
        "train_steps_per_second",
        "steps a second, whole run",
        "steps/s",
        "Optimizer steps by second of the whole run; logged once, at the end.",
        "Compare it between runs of the same settings.",
        "steps/s",
        "time",
        "up",
    ),
    Metric(
        "train_tokens_per_second",
        "tokens a second since the start",
        "tokens/s, mean",
        "The trainer's own mean since this start of the run, logged when "
        "`include_num_input_tokens_seen` is set.",
        "Level after the first steps.",
        "tokens/s",
        "time",
        "up",
    ),
    Metric(
        "eval_runtime",
        "duration of an evaluation, s",
        "eval time",
        "Seconds that one evaluation took.",
        "Level; training stands still for so long.",
        "s",
        "time",
        "down",
    ),
    Metric(
        "eval_samples_per_second",
        "samples a second, evaluation",
        "eval samples/s",
        "Rows evaluated by second.",
        "Level.",
        "samples/s",
        "time",
        "up",
    ),
    Metric(
        "eval_steps_per_second",
        "steps a second, evaluation",
        "eval steps/s",
        "Batches evaluated by second.",
        "Level.",
        "steps/s",
        "time",
        "up",
    ),
    Metric(
        "eval_model_preparation_time",
        "preparing the model to evaluate, s",
        "eval prepare",
        "Seconds to prepare the model before an evaluation without training.",
        "Small.",
        "s",
        "time",
        "down",
    ),
)
