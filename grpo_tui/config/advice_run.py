"""Advice on generation, batch, optimizer, rewards, data, logging and saving. Words only."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_tui.config.advice_entry import Advice, Choice

GENERATION: Mapping[str, Advice] = {
    "num_generations": Advice(
        "Start with 4 or 8, go to 16 when memory and time allow.",
        "A completion is judged against its group. With a success rate p a group of G is flat, and teaches "
        "nothing, with p^G + (1 − p)^G: at p = 0.1 that is 66 % for 4, 43 % for 8, 19 % for 16.",
        when="More for hard questions (frac_reward_zero_std high), less for easy ones: filter those out.",
        cost="In the same batch there are fewer prompts; with as many prompts generation and training grow "
        "with it. The batch must hold whole groups.",
        value=8,
    ),
    "max_completion_length": Advice(
        "256 for short answers, 512 for a worked solution, 1024 to 4096 for long reasoning; best "
        "from the 99th "
        "percentile of the answers that the model gives before training.",
        "A cut completion has no answer and cannot be right. Watch completions/clipped_ratio.",
        cost="Time and activation memory grow with the longest completion of a batch, and the KV cache too.",
        value=512,
    ),
    "temperature": Advice(
        "Leave 1.0; 0.7 to 1.0 for small models that babble.",
        "Learning needs different answers in a group: below 0.7 they become alike. TRL divides the "
        "logits by "
        "it in training too, so that sampling and training agree.",
        value=1.0,
    ),
    "top_p": Advice(
        "Leave 1.0.",
        "TRL computes probabilities over the whole vocabulary; what was sampled from a cut distribution is "
        "off-policy from the start.",
        older="0.9, which guides recommend for answering, is for use of the model, not for training.",
        value=1.0,
    ),
    "top_k": Advice("Leave 0 (off).", "As for top_p: training sees the whole vocabulary.", value=0),
    "min_p": Advice("Leave empty.", "As for top_p: training sees the whole vocabulary."),
    "repetition_penalty": Advice(
        "Leave 1.0.",
        "It changes what is sampled and not what is trained, so a model learns from sentences it would not "
        "say. A reward against repetition teaches it instead (get_repetition_penalty_reward).",
        value=1.0,
    ),
    "steps_per_generation": Advice(
        "Leave empty: as many as gradient_accumulation_steps, so each optimizer step has its own "
        "completions.",
        "That is on-policy, the ratio is 1 and nothing is clipped.",
        when="2 to 4 times gradient_accumulation_steps when generating takes most of the time, and for GSPO: "
        "larger generations are faster per completion.",
        cost="The later steps of a generation are off-policy, and a forward pass is added.",
    ),
    "generation_batch_size": Advice(
        "Leave empty and set steps_per_generation instead; TRL takes only one of them.",
        "The one follows from the other, and the steps do not change with the number of GPUs.",
    ),
    "generation_kwargs": Advice(
        "Leave empty.",
        "What stands here wins over temperature, top_p and the others without a word, and training does not "
        "know of it.",
        when="For what has no field of its own, as stop words.",
    ),
    "max_tool_calling_iterations": Advice(
        "Set it, 4 to 8, when rewards or data bring tools.",
        "Without a limit a model that calls a tool for ever is stopped by its length alone.",
    ),
    "use_transformers_continuous_batching": Advice(
        "false, unless vLLM cannot be installed and completions differ much in length.",
        "It fills the places of finished completions at once, as vLLM does, with less speed.",
        value=False,
    ),
    "cache_implementation": Advice(
        "Leave empty.", "The dynamic cache grows with the completions; a static one is reserved whole."
    ),
}

OPTIMISATION: Mapping[str, Advice] = {
    "learning_rate": Advice(
        "1.0e-6 for all weights, 5.0e-6 where that is too slow; ten times as much with LoRA (1.0e-5 to "
        "5.0e-5).",
        "The gradient of a policy is noisy; what goes too far cannot be taken back, because the next samples "
        "come from the worse policy.",
        when="Lower it when reward falls after rising, when kl or grad_norm jump; raise it when "
        "reward is flat "
        "over 100 steps although groups differ.",
        older="Common recipes say 5e-6 (safe) and 1e-5 (faster, riskier), for models of 1 to 3B "
        "with LoRA. "
        "Write 1.0e-6 with the dot: YAML 1.1, which TRL reads, takes 1e-6 for text.",
        value=1e-6,
    ),
    "per_device_train_batch_size": Advice(
        "What memory allows, a divisor or multiple of num_generations; it counts completions, not prompts.",
        "Activations grow with completions × length, and are what fills memory first; TRL 1.16 makes logits "
        "in tiles, never all at once.",
        when="Out of memory: halve it and double gradient_accumulation_steps, which changes nothing else.",
        older="The common 1 × 4 with num_generations 8 is refused now: a generation batch of 4 holds "
        "no whole "
        "group.",
    ),
    "gradient_accumulation_steps": Advice(
        "So that a step has 8 to 32 prompts: batch × steps × GPUs ÷ num_generations.",
        "One prompt a step is one question's opinion. More accumulation costs time, not memory.",
        older="Recipes with an effective batch of 4 are too small for a group of 8.",
    ),
    "max_steps": Advice(
        "Set it: 100 for a first look, 300 to 1000 for a result.",
        "Reward rises within the first hundred steps or hardly ever; an epoch may be thousands of steps.",
        older="Older guides write max_steps: None; today it is -1 for num_train_epochs epochs.",
    ),
    "num_train_epochs": Advice(
        "1, or max_steps instead.",
        "The default of 3 lets the model see each question three times: it then learns the answers by heart.",
    ),
    "lr_scheduler_type": Advice(
        "constant_with_warmup for runs whose end is open, cosine for a fixed length.",
        "A falling rate ends learning at max_steps: a longer run is then another run, not a continuation.",
        older="Common recipes use cosine with warmup_ratio 0.1.",
    ),
    "warmup_steps": Advice(
        "10, or 0.1 for a tenth of the run.",
        "Adam's averages are empty at first, and its first steps too long.",
        older="warmup_ratio: 0.1 is gone from transformers 5; warmup_steps takes a share below 1.",
        value=10,
    ),
    "max_grad_norm": Advice(
        "0.2; 0.1 to 1.0.",
        "One odd group can give a gradient ten times the usual; clipping keeps it from being one bad step.",
        older="Common recipes say 0.1; TRL's default is 1.0.",
        value=0.2,
    ),
    "weight_decay": Advice(
        "Leave 0.0, or 0.1 as common recipes have it.",
        "At a rate of 1e-6 and some hundred steps it moves nothing.",
        value=0.0,
    ),
    "adam_beta1": Advice(
        "Leave 0.9.",
        "It averages the gradient over ten steps, which steadies what a few prompts a step say.",
    ),
    "adam_beta2": Advice(
        "0.99 for short runs; the default is 0.999.",
        "0.999 averages over a thousand steps, more than most runs have.",
    ),
    "optim": Advice(
        "adamw_8bit for full training on little memory; leave the default otherwise.",
        "Adam keeps two numbers a trained weight: 8 bytes, or 2 with 8 bits.",
        when="paged_adamw_8bit moves them to the host when memory runs out. With LoRA it saves next to "
        "nothing.",
        cost="Needs bitsandbytes and a GPU.",
    ),
    "bf16": Advice(
        "Leave it: TRL turns it on unless fp16 is set.",
        "Computing in bfloat16 is twice as fast from Ampere on, and needs no loss scaling as fp16 does.",
        when="false on GPUs before Ampere (V100, T4), with fp16: true.",
        older="Guides set bf16: true by hand. It does not change the precision the weights are kept in: that "
        "is dtype.",
    ),
    "gradient_checkpointing": Advice(
        "Leave true.",
        "Activations are computed anew on the way back, so that those of one layer are kept and not of all.",
        cost="A step takes about a fifth longer. false when memory is plenty.",
        older="Guides add it against running out of memory; in TRL it is on by default. transformers 5 calls "
        "it activation_checkpointing and warns about the old name; TRL 1.16 still reads this one.",
        value=True,
    ),
    "fp16": Advice(
        "Leave false; true on GPUs before Ampere.",
        "Its largest number is 65,504: gradients must be scaled, and a step is skipped when they overflow.",
        value=False,
    ),
    "tf32": Advice(
        "true with dtype: float32 on Ampere and newer.",
        "Matrix products in float32 are then several times faster, with 10 bits of precision inside.",
    ),
    "torch_compile": Advice(
        "Leave false.",
        "Lengths change in every step, and each new shape is compiled anew.",
        value=False,
    ),
    "full_determinism": Advice(
        "Leave false; true to find out whether two runs differ by chance.",
        "Results are then the same to the bit on one machine.",
        cost="Speed; and vLLM is not covered by it.",
        value=False,
    ),
    "use_liger_kernel": Advice(
        "false.",
        "TRL 1.16 calls it deprecated: model_init_kwargs: {use_kernels: true} does the same.",
        value=False,
    ),
    "torch_empty_cache_steps": Advice(
        "Leave empty; 1 when memory runs out in the middle of a run although it fits on paper.",
        "Lengths differ from step to step, which fragments the allocator's cache.",
        cost="About a tenth of the speed.",
    ),
    "seed": Advice(
        "Set it, and change it to see whether a gain is real.",
        "Runs of one config differ by several points of reward.",
    ),
}

REWARDS: Mapping[str, Advice] = {
    "grpo_tui.rewards": Advice(
        "Three to five: the right answer weighs most (2.0), the form less (0.5 to 1.0), length and style "
        "least (0.1 to 0.5).",
        "The form teaches early, when nothing is right yet; correctness alone is too rare a signal at first, "
        "and the form alone is learned instead of the task.",
        when="Score them on samples before training (pane 3, grpo-tui score) and try to fool them "
        "(grpo-tui probe).",
    ),
    "reward_weights": Advice(
        "One weight for each reward, or weight: at the entries of grpo_tui.rewards; not both.",
        "The order is reward model, reward_funcs, grpo_tui.rewards.",
    ),
    "reward_funcs": Advice(
        "TRL's own by name: accuracy_reward for mathematics, think_format_reward for <think> tags.",
        "accuracy_reward needs math-verify, and gives no score at all to a gold answer it cannot read.",
    ),
    "reward_model_name_or_path": Advice(
        "Only where nothing can be checked by a program.",
        "A learned reward is fooled within a few hundred steps: use beta above 0 and read the completions.",
        cost="A second model in memory, and its forward pass in every step.",
    ),
}

DATA: Mapping[str, Advice] = {
    "dataset_name": Advice(
        "A set of questions with answers that a program can check; a few hundred are enough to begin with.",
        "GRPO needs prompts only: the model writes the answers, and the other columns go to the rewards.",
        when="Rows of preference pairs (chosen, rejected) are for DPO.",
    ),
    "grpo_tui.dataset": Advice(
        "A file beside the config, or file.py:function, where the rows are your own.",
        "The run then keeps a fingerprint of exactly these rows.",
    ),
    "grpo_tui.columns": Advice(
        "Name the question's column prompt, as {prompt: question}.",
        "GRPO reads prompt; every other column reaches the rewards under its name.",
    ),
    "grpo_tui.answer": Advice(
        "Cut the short answer out of worked solutions: gsm8k, boxed, tag or regex.",
        "A reward that compares a number with a whole solution gives 0 for ever.",
    ),
    "grpo_tui.system_prompt": Advice(
        "State the form of the answer in it, with the tags your rewards look for.",
        "What the model never does by itself is never rewarded, and so never learned.",
    ),
    "grpo_tui.holdout": Advice(
        "32 to 200 rows.",
        "Training reward rises for questions seen before; only rows never trained on show what was learned.",
    ),
    "grpo_tui.filters": Advice(
        "Drop nulls and duplicates, and prompts longer than the 99th percentile.",
        "One very long prompt sets the memory of its batch; a null answer is a reward of 0 for ever.",
        older="max_prompt_length: 256 to 512 is gone: TRL no longer cuts prompts.",
    ),
    "chat_template_kwargs": Advice(
        "Leave empty; {enable_thinking: false} for models that think by themselves (Qwen3) where answers "
        "are short.",
        "Their thoughts fill max_completion_length before an answer comes.",
        when="Leave thinking on when it is what you train, with a length that has room for it.",
    ),
    "dataset_streaming": Advice(
        "false, unless the rows do not fit on the disk.",
        "A stream has no length: no hold-out, no epochs, and max_steps must be set.",
        value=False,
    ),
    "shuffle_dataset": Advice(
        "Leave true.", "Sorted data trains one kind of question at a time.", value=True
    ),
    "remove_unused_columns": Advice(
        "Leave false.", "true takes the columns away that the rewards need.", value=False
    ),
}

LOGGING: Mapping[str, Advice] = {
    "output_dir": Advice("A folder of its own for each run.", "Checkpoints, run.db and log stand there."),
    "logging_steps": Advice(
        "1.",
        "A step takes seconds to minutes; ten steps folded into one point hide a jump.",
        older="TRL's default is 10, and recipes for large GPUs have 10 too.",
        value=1,
    ),
    "save_steps": Advice(
        "100 on long runs, less than max_steps on short ones.",
        "The default of 500 leaves a run of 300 steps without any checkpoint before its end.",
        cost="A full checkpoint has weights and optimizer: 12 bytes a parameter in float32, 6 in bfloat16; "
        "save_total_limit bounds how many stay.",
        value=100,
    ),
    "grpo_tui.probe_prompts": Advice(
        "{every: 50} with a hold-out, on runs of more than a few minutes.",
        "The same questions answered again and again show how the policy changes; training asks others each "
        "time.",
        cost="A few completions every so many steps, generated by transformers.",
    ),
    "save_total_limit": Advice(
        "3.", "Reward often falls after its best point: the last checkpoint is not always the one.", value=3
    ),
    "save_only_model": Advice(
        "Leave false.", "Without the optimizer's state a run cannot be resumed exactly.", value=False
    ),
    "report_to": Advice(
        "none; wandb or trackio where several people look on.",
        "Every completion, reward and metric is in run.db as it is.",
        older="Many guides recommend wandb; TRL 1.16's default is none.",
        value="none",
    ),
    "log_completions": Advice(
        "Leave false.",
        "It prints a table into the log at every logging step; all completions are in run.db anyway.",
        value=False,
    ),
    "eval_strategy": Advice(
        "steps with eval_steps 50 to 100 and a hold-out, when you compare runs.",
        "Reward on rows never trained on is the only fair number.",
        cost="An evaluation generates num_generations_eval answers for every row.",
        choices={
            "no": Choice("No evaluation."),
            "steps": Choice("Every eval_steps steps."),
            "epoch": Choice("After every epoch."),
        },
    ),
    "per_device_eval_batch_size": Advice(
        "A multiple of num_generations_eval, as large as memory allows.",
        "An evaluation has no gradients: twice the training batch often fits.",
    ),
    "resume_from_checkpoint": Advice(
        "Leave empty, and continue with grpo-tui train RUN --resume.",
        "A file that always resumes cannot start anew.",
    ),
    "push_to_hub": Advice(
        "false, until you have looked at the result.",
        "Every save is uploaded while the run waits.",
        value=False,
    ),
    "hub_token": Advice(
        "Leave empty: log in with hf auth login, or set HF_TOKEN in the shell.",
        "What stands in a config is soon in a repository.",
    ),
    "num_generations_eval": Advice(
        "1 to 4.", "For a mean, more questions are worth more than more answers to one."
    ),
    "save_strategy": Advice(
        "Leave steps.",
        "An epoch may be longer than the run.",
        choices={
            "no": Choice("No checkpoint: nothing to resume from."),
            "steps": Choice("Every save_steps steps."),
            "epoch": Choice("After every epoch."),
            "best": Choice("When metric_for_best_model is better than ever; needs an evaluation."),
        },
        value="steps",
    ),
}
