"""Advice on the model, LoRA and quantization, vLLM, and several GPUs. Words only."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_tui.config.advice_entry import Advice, Choice

MODEL: Mapping[str, Advice] = {
    "model_name_or_path": Advice(
        "An instruction-tuned model that already solves some of the questions: 0.5 to 3B to learn "
        "the trade, 7B "
        "and more for results. An SFT adapter or model of your own task is the best start.",
        "GRPO makes likely what happens now and then. What never happens is never rewarded: measure the "
        "success rate first (grpo-tui baseline).",
    ),
    "dtype": Advice(
        "bfloat16 with LoRA and on little memory; float32 for full training where it fits.",
        "float32 is TRL's default: 16 bytes a parameter with gradients and Adam, 8 with bfloat16. "
        "But bfloat16 "
        "has 8 bits of precision, and a step of 1e-6 is often rounded away.",
        older="Guides write torch_dtype, which is called dtype now; inside model_init_kwargs the old name is "
        "ignored without a word.",
        choices={
            "bfloat16": Choice("2 bytes a weight; Ampere and newer, and CPUs."),
            "float16": Choice("2 bytes a weight, for older GPUs; rates must be scaled, and can overflow."),
            "float32": Choice("4 bytes a weight; the most exact, TRL's default."),
            "auto": Choice("As the weights are stored; bfloat16 for most models of today."),
        },
    ),
    "attn_implementation": Advice(
        "Leave empty (sdpa); flash_attention_2 or kernels-community/flash-attn2 for completions above about "
        "1,000 tokens.",
        "Attention's share of the time grows with the length; at 512 tokens it is small.",
        cost="flash_attention_2 needs the package flash-attn, a GPU from Ampere on, and bfloat16 or float16; "
        "the kernels- one is fetched ready built.",
        older="The often quoted two to three times faster holds for long sequences, and not against sdpa.",
    ),
    "model_init_kwargs": Advice(
        "Leave empty, but for {use_kernels: true} and the like.",
        "dtype, attn_implementation and model_revision have keys of their own, which are checked.",
        older="Guides load the model themselves with device_map: auto. TRL places it: on the one GPU, or "
        "whole on that of each process.",
    ),
    "trust_remote_code": Advice(
        "Leave false.", "true runs Python code from the model's repository on this machine.", value=False
    ),
    "disable_dropout": Advice(
        "Leave false; true with a model that has dropout in its layers.",
        "Models of today have none; where there is some, the same text gets two probabilities.",
        value=False,
    ),
    "cast_lm_head_to_fp32": Advice(
        "true for long runs in bfloat16 when sampling_logp_difference grows.",
        "The last layer's rounding is where vLLM and trainer differ most (ScaleRL, arXiv 2510.13786). Only "
        "for models whose embeddings are not tied.",
    ),
}

LORA: Mapping[str, Advice] = {
    "use_peft": Advice(
        "true for 3B and more on one GPU.",
        "LoRA trains some hundredths of the weights: no gradients and no Adam for the rest, and no second "
        "model for beta.",
        cost="Rates must be about ten times higher. What is learned is about the same: the signal of "
        "a reward "
        "is small (LoRA Without Regret, Thinking Machines 2025).",
    ),
    "lora_r": Advice(
        "16; 8 to 32.",
        "A reward gives few bits a completion: rank 1 to 32 learns what full training learns.",
        cost="Adapter, gradients and Adam grow with it; all are small.",
        value=16,
    ),
    "lora_alpha": Advice(
        "Twice lora_r, and change both together.",
        "The adapter is scaled by alpha / r: alpha alone is another learning rate.",
        value=32,
    ),
    "lora_dropout": Advice(
        "0.0.",
        "Dropout in training and none in sampling makes the two disagree, and there is no overfitting of "
        "labels to prevent.",
        older="Common recipes and TRL's default have 0.05.",
        value=0.0,
    ),
    "lora_target_modules": Advice(
        "all-linear, or [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj].",
        "Left empty PEFT takes the attention's q_proj and v_proj only; most weights, and most of the gain, "
        "are in the MLP.",
        when="Never lm_head: TRL 1.16 refuses an adapter there.",
        value=["all-linear"],
    ),
    "lora_modules_to_save": Advice(
        "Leave empty.", "It trains and saves whole layers beside the adapter, as for new tokens only."
    ),
    "load_in_4bit": Advice(
        "true (QLoRA) when the weights alone do not fit: 7B on 16 GB, 14B on 24 GB.",
        "A weight takes about half a byte instead of two.",
        cost="Needs bitsandbytes, a GPU and use_peft: true. Generation is slower, for every layer is "
        "unpacked.",
        value=False,
    ),
    "load_in_8bit": Advice(
        "Leave false; load_in_4bit where memory is short.",
        "8 bits are slower than both 4 bits and bfloat16 here.",
        value=False,
    ),
    "bnb_4bit_quant_type": Advice(
        "Leave nf4.",
        "Its levels fit weights that are normally distributed (QLoRA, arXiv 2305.14314).",
        choices={
            "nf4": Choice("Levels by the quantiles of a normal distribution.", source="arXiv 2305.14314"),
            "fp4": Choice("A 4-bit floating-point number; a little less exact."),
        },
        value="nf4",
    ),
    "use_rslora": Advice(
        "false; true for lora_r above 64.", "It scales by alpha / √r, so that a high rank goes on learning."
    ),
    "use_dora": Advice("Leave false.", "Slower and larger, for little gain at rank 16.", value=False),
}

VLLM: Mapping[str, Advice] = {
    "use_vllm": Advice(
        "true on a GPU as soon as runs take more than minutes.",
        "Generation is most of a step's time with model.generate; vLLM does it several times faster.",
        cost="Memory for a second copy of the weights and a KV cache, a version that fits TRL's window, a "
        "minute at the start.",
    ),
    "vllm_mode": Advice(
        "colocate on one GPU; server when a GPU can be spared for it.",
        "On one GPU training and generation take turns, so a second would idle half of the time.",
        choices={
            "colocate": Choice(
                "vLLM in the training process, on the training GPUs. vllm_gpu_memory_utilization is "
                "its share."
            ),
            "server": Choice(
                "vLLM on GPUs of its own, started before the run with trl vllm-serve --model NAME; "
                "weights go "
                "there over NCCL after each step. For large models and many training GPUs."
            ),
        },
        older="Guides say that the trainer starts the server, or leave the mode out: it was server, and is "
        "colocate now. In TRL 2 vllm serve takes the place of trl vllm-serve, which only starts it.",
        value="colocate",
    ),
    "vllm_gpu_memory_utilization": Advice(
        "0.3 to start with; up until training runs out of memory, down when it does.",
        "It is reserved whole at the start: weights once more, and the rest KV cache. Too small a "
        "cache makes "
        "completions wait for each other.",
        when="Only for colocate; a server has a flag of its own. Up to 0.6 with vllm_enable_sleep_mode.",
        value=0.3,
    ),
    "vllm_max_model_length": Advice(
        "Longest prompt plus max_completion_length.",
        "Left empty it is the model's whole context (often 32,768): vLLM may refuse to start for "
        "want of cache.",
    ),
    "vllm_enable_sleep_mode": Advice(
        "true when training and vLLM do not fit side by side.",
        "vLLM's weights and cache leave the GPU during the optimizer step.",
        cost="A second or more each way.",
    ),
    "vllm_server_host": Advice(
        "Leave it when the server runs on this machine, else the name of the other.",
        "The default 0.0.0.0 means this machine here.",
        when="vllm_server_base_url says host and port at once, and then counts alone.",
    ),
    "vllm_structured_outputs_regex": Advice(
        "Leave empty; a reward for the form teaches it.",
        "A form that is forced in sampling is not learned: without the force the model does not keep it.",
        cost="Each token is chosen among fewer than training assumes.",
    ),
    "vllm_importance_sampling_clip_max": Advice(
        "Leave 3.0.",
        "sampling/importance_sampling_ratio shows how far both are apart: near 1 the bound never acts.",
        value=3.0,
    ),
    "vllm_tensor_parallel_size": Advice(
        "Leave 1 while the model fits one GPU.",
        "Each GPU then generates for itself, without traffic. Must divide the number of GPUs.",
        value=1,
    ),
    "vllm_importance_sampling_correction": Advice(
        "Leave true.",
        "vLLM's kernels give other probabilities than the trainer's; without the correction that is silent "
        "off-policy training.",
        value=True,
    ),
    "vllm_importance_sampling_mode": Advice(
        "Leave sequence_mask; token_truncate for long completions and for vespo.",
        "Over thousands of tokens small differences multiply, and whole completions would be dropped.",
        choices={
            "sequence_mask": Choice(
                "Completions whose ratio leaves the bounds are left out.",
                "w = exp(Σ log π_train − log π_vllm), 0 outside [min, max]",
                "TRL's default",
            ),
            "sequence_truncate": Choice(
                "The ratio of the completion is cut at the bounds.", "clip(w)", "TRL"
            ),
            "token_truncate": Choice(
                "The ratio of each token is cut: nothing is lost.",
                "clip(π_train / π_vllm)",
                "Truncated importance sampling, Yao et al. 2025",
            ),
            "token_mask": Choice(
                "Tokens whose ratio leaves the bounds are left out.",
                "π_train / π_vllm, 0 outside [min, max]",
                "IcePop, arXiv 2510.18855",
            ),
        },
    ),
    "vllm_model_impl": Advice(
        "Leave vllm.",
        "Its own implementation of a model is the fast one.",
        choices={
            "vllm": Choice("vLLM's implementation."),
            "transformers": Choice("That of transformers, for models vLLM does not know; slower."),
        },
        value="vllm",
    ),
}

DISTRIBUTED: Mapping[str, Advice] = {
    "grpo_tui.launcher": Advice(
        "accelerate launch --num_processes N, with a config file for DeepSpeed or FSDP.",
        "Each process makes its own completions: twice the GPUs is twice the prompts a step, so halve "
        "gradient_accumulation_steps to keep the batch.",
    ),
    "grpo_tui.gpus": Advice(
        "The free ones, on a shared machine.", "nvidia-smi tells who holds the others; so does the plan."
    ),
    "deepspeed": Advice(
        "ZeRO-2 while weights fit one GPU, ZeRO-3 when they do not.",
        "ZeRO-2 spreads gradients and Adam; ZeRO-3 the weights too, which are gathered for each generation.",
        cost="Needs the package deepspeed.",
    ),
    "fsdp": Advice(
        "Leave empty, and give accelerate a config file for FSDP instead.",
        "The launcher and the trainer must agree; one place is enough for both.",
    ),
    "ds3_gather_for_generation": Advice(
        "Leave true; false only when the gathered weights do not fit.",
        "Without gathering every layer of every token is fetched: many times slower, and not with vLLM.",
        value=True,
    ),
    "ddp_timeout": Advice(
        "Leave 1800; more for rewards that take minutes.",
        "A rank that waits longer for the others ends the run.",
        value=1800,
    ),
}
