"""Advice on the loss: its forms, clipping, scaling, what of a completion counts. Words only.

Formulas are those of `GRPOTrainer._compute_loss` in TRL 1.16: r is the ratio of the policy's probability of a
token now to that when it was sampled, A the advantage, T the tokens of a completion, B the completions of a
batch.
"""

from __future__ import annotations

from collections.abc import Mapping

from grpo_tui.config.advice_entry import Advice, Choice

_LOSSES = {
    "dapo": Choice(
        "TRL's default, and right for most runs: every token of the batch weighs the same, so a long answer "
        "counts by its length and no answer is favoured for being short.",
        "−Σ min(r·A, clip(r)·A) / tokens of the whole batch",
        "DAPO, arXiv 2503.14476",
    ),
    "grpo": Choice(
        "The first form: the mean over each completion, then over completions. Long wrong answers are "
        "punished less per token, so wrong answers tend to grow. Right with importance_sampling_level: "
        "sequence (GSPO).",
        "−mean over B of (1/T · Σ min(r·A, clip(r)·A))",
        "DeepSeekMath, arXiv 2402.03300",
    ),
    "bnpo": Choice(
        "As dapo, but over the tokens of one device's micro-batch: the result then depends on "
        "per_device_train_batch_size. With a micro-batch of 1 it is grpo. dapo is the better of the two.",
        "−Σ min(r·A, clip(r)·A) / tokens of the micro-batch",
        "TRL's source",
    ),
    "dr_grpo": Choice(
        "Divides by a constant, so that no length is favoured. Meant together with scale_rewards: none. "
        "The gradient shrinks with max_completion_length: raise the rate when answers are much shorter.",
        "−Σ min(r·A, clip(r)·A) / (B · max_completion_length)",
        "Dr. GRPO, arXiv 2503.20783",
    ),
    "cispo": Choice(
        "Cuts the weight of a token instead of dropping its gradient, so rare, deciding tokens go on "
        "learning. Set epsilon_high: 5.0 with it: here it is the largest weight, and without it epsilon 0.2 "
        "would cut every weight to 0.2.",
        "−Σ min(r, epsilon_high)·A·log π / tokens of the whole batch (the weight without gradient)",
        "MiniMax-M1, arXiv 2506.13585; ScaleRL, arXiv 2510.13786",
    ),
    "sapo": Choice(
        "A smooth gate in place of the hard clip: the further a token has moved, the less it counts. For "
        "runs that use a generation more than once; epsilon has no effect. Steeper for negative advantages "
        "(sapo_temperature_neg).",
        "−mean over B of (1/T · Σ 4/τ · sigmoid(τ·(r − 1)) · A)",
        "SAPO, arXiv 2511.20347",
    ),
    "luspo": Choice(
        "GSPO with each completion's loss multiplied by its length, against the pull towards short answers. "
        "Needs importance_sampling_level: sequence.",
        "−mean over B of (T · min(r·A, clip(r)·A)), r of the sequence",
        "LUSPO, arXiv 2602.05261",
    ),
    "vespo": Choice(
        "A smooth weight on whole completions, strong when they are far off the policy: for asynchronous or "
        "much reused samples. Needs importance_sampling_level: token, and with vLLM "
        "vllm_importance_sampling_mode token_truncate or token_mask.",
        "−Σ φ(w)·A·log π / tokens of the whole batch, φ(w) = exp(λ)·w^k·exp(−λw), w the product of r",
        "VESPO, arXiv 2602.10693",
    ),
}

LOSS: Mapping[str, Advice] = {
    "loss_type": Advice(
        "Leave dapo. Change it for a reason that you can see in the curves, one thing at a time.",
        "It has no length bias and does not depend on how the batch is cut up.",
        when="dr_grpo with scale_rewards: none where answers grow without getting better; grpo with "
        "importance_sampling_level: sequence (GSPO) for mixture-of-experts models; cispo for long reasoning.",
        older="They describe grpo or bnpo as the default.",
        choices=_LOSSES,
        value="dapo",
    ),
    "beta": Advice(
        "Leave 0.0; try 0.001 to 0.04 when the model forgets its language or drifts from its form.",
        "With verifiable rewards the tie to the first model mostly slows learning down; DAPO, Dr. GRPO and "
        "later work leave it out.",
        when="A learned reward model, which can be fooled, and style tasks want it.",
        cost="Above 0 a reference model is loaded (as large as the model; with LoRA none, the adapter is "
        "switched off for it) and every step has one more forward pass.",
        older="DeepSeekMath used 0.04, DeepSeek-R1 0.001; kl is logged only above 0. That the loss "
        "is the KL, "
        "starts at 0 and grows, as older guides say, holds only then.",
        value=0.0,
    ),
    "scale_rewards": Advice(
        "Leave group; none with dr_grpo; batch where many groups are nearly flat.",
        "Dividing by a group's deviation makes an easy or hard question with one odd completion as loud as a "
        "question half solved.",
        choices={
            "group": Choice(
                "Advantages of one question have deviation 1, whatever the size of the rewards.",
                "A = (R − mean of the group) / (deviation of the group + 1e-4)",
                "DeepSeekMath, arXiv 2402.03300",
            ),
            "batch": Choice(
                "One divisor for all: questions keep their proportions, and a nearly flat group stays quiet.",
                "A = (R − mean of the group) / (deviation of the batch + 1e-4)",
                "Lite PPO, arXiv 2508.08221",
            ),
            "none": Choice(
                "No division: the size of the rewards is the size of the step. Keep them between 0 and 1, or "
                "lower the rate.",
                "A = R − mean of the group",
                "Dr. GRPO, arXiv 2503.20783",
            ),
        },
        value="group",
    ),
    "importance_sampling_level": Advice(
        "Leave token; sequence together with loss_type: grpo is GSPO.",
        "Single tokens of a mixture-of-experts model change their probability wildly when other experts are "
        "chosen; the mean over a completion does not.",
        when="It only matters when a generation is used for more than one optimizer step "
        "(steps_per_generation above gradient_accumulation_steps, or num_iterations above 1).",
        cost="With sequence the ratios are much nearer to 1: epsilon 3.0e-4 and epsilon_high 4.0e-4 are the "
        "paper's, and 0.2 would clip nothing.",
        choices={
            "token": Choice(
                "One ratio a token: TRL's default.", "r = π(token) / π_old(token)", "PPO, arXiv 1707.06347"
            ),
            "sequence": Choice(
                "One ratio a completion. With dapo, bnpo, dr_grpo or cispo it weighs completions by length, "
                "against which TRL warns: take grpo.",
                "r = exp(mean over the completion of log π − log π_old)",
                "GSPO, arXiv 2507.18071",
            ),
        },
        value="token",
    ),
    "epsilon": Advice(
        "Leave 0.2; 3.0e-4 with importance_sampling_level: sequence.",
        "It bounds how far the probability of a token may go in one use of a generation. With one step per "
        "generation the ratio is 1 and nothing is ever clipped.",
        when="clip_ratio/region_mean above a few per cent: use each generation less often, or lower "
        "the rate.",
        value=0.2,
    ),
    "epsilon_high": Advice(
        "0.28 (clip-higher) when entropy falls early; 5.0 with cispo; 4.0e-4 with GSPO.",
        "A higher bound upwards lets unlikely tokens become likely, which keeps the answers of a group "
        "different (0.28: DAPO, arXiv 2503.14476; 5.0: ScaleRL, arXiv 2510.13786).",
        when="It acts only when a generation is used for more than one step, but for cispo, where it is "
        "always the largest weight.",
    ),
    "delta": Advice(
        "Leave empty; 4.0 when single tokens with a negative advantage blow up the gradient.",
        "The ordinary clip does not bound the ratio when the advantage is negative (two-sided clipping, "
        "INTELLECT-2, arXiv 2505.07291).",
        when="Only for the clipped losses, and above 1 + epsilon_high.",
    ),
    "num_iterations": Advice(
        "Leave 1.",
        "Each further pass over the same completions is off-policy: cheaper than generating anew, and less "
        "stable.",
        when="2 to 4 when generation takes nearly all of the time; watch clip_ratio and kl.",
        cost="One more forward pass per generation, for the probabilities at sampling time.",
        value=1,
    ),
    "mask_truncated_completions": Advice(
        "true when more than a few completions are cut off and the cut ones get a reward.",
        "A cut answer cannot be right; without its end the reward judges the length limit (DAPO, arXiv "
        "2503.14476).",
        cost="When all completions of a batch are cut, the step trains nothing, and nothing says so: "
        "completions/clipped_ratio must stay well below 1. A longer max_completion_length is the "
        "better cure.",
    ),
    "top_entropy_quantile": Advice(
        "Leave 1.0; 0.2 trains on the fifth of the tokens where the model hesitates.",
        "Most tokens follow from the ones before; the forks carry the decision (Beyond the 80/20 Rule, arXiv "
        "2506.01939). Shown for models of 8B and more.",
        value=1.0,
    ),
    "entropy_coef": Advice(
        "Leave 0.0; look at epsilon_high and temperature first when entropy collapses.",
        "An entropy bonus raises the probability of every token, nonsense too.",
        when="With use_adaptive_entropy and an entropy_target near the entropy at the start it acts only "
        "below it (Skywork-OR1, arXiv 2505.22312).",
        value=0.0,
    ),
    "off_policy_mask_threshold": Advice(
        "Leave empty; 0.5 when generations are reused or vLLM differs from the trainer.",
        "Drops completions with a negative advantage that the policy has moved far away from (DeepSeek-V3.2, "
        "arXiv 2512.02556).",
    ),
    "use_bias_correction_kl": Advice(
        "Leave true.",
        "With it the gradient of the KL term is that of the reverse KL (DeepSeek-V3.2, arXiv 2512.02556); "
        "without effect while beta is 0.",
        older="The default was false in earlier versions: runs with beta above 0 are not comparable with "
        "theirs.",
        value=True,
    ),
    "sync_ref_model": Advice(
        "Leave false.",
        "Moving the reference along (TR-DPO, arXiv 2404.09656) takes most of the hold of beta away. It needs "
        "beta above 0, and TRL 1.16 refuses it with LoRA.",
        value=False,
    ),
    "sapo_temperature_neg": Advice(
        "Leave 1.05, above sapo_temperature_pos.",
        "Gradients of negative advantages spread over the whole vocabulary and are the unstable ones (SAPO, "
        "arXiv 2511.20347). Without effect for other losses.",
        value=1.05,
    ),
    "vespo_k_neg": Advice(
        "Leave vespo_k_pos 2, vespo_lambda_pos 3, vespo_k_neg 3, vespo_lambda_neg 2.",
        "They are the paper's (VESPO, arXiv 2602.10693), and act for loss_type: vespo alone.",
        value=3.0,
    ),
    "multi_objective_aggregation": Advice(
        "Leave sum_then_normalize; normalize_then_sum when one reward drowns the others.",
        "After the sum, rewards of different size that vary together cannot be told apart any more.",
        choices={
            "sum_then_normalize": Choice(
                "The weighted sum first, then the group's mean and deviation.",
                "A = normalise(Σ w·R)",
                "TRL",
            ),
            "normalize_then_sum": Choice(
                "Each reward is normalised within its group first, so that its weight alone says how much it "
                "counts; the sum is normalised over the batch.",
                "A = normalise over the batch(Σ w·normalise over the group(R))",
                "GDPO, arXiv 2601.05242",
            ),
        },
        value="sum_then_normalize",
    ),
}
