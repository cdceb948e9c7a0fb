"""The settings of sampling and of loading, declared. Knows no engine and no widget.

Defaults are llama.cpp's. The order in which the samplers act is the same in every engine:
logit bias, grammar or JSON schema, penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, temperature, draw;
mirostat or adaptive-p take the place of what comes after temperature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from runtime.adapters import check_adapters
from runtime.errors import UserError
from runtime.grammar import check_grammar
from runtime.json_schema import check_schema
from runtime.logit_bias import check_biases
from runtime.settings import Applies, BadSetting, Setting, SettingsGroup, field_of
from runtime.stop import check_stop_texts
from runtime.tensor_split import read_split
from runtime.text import N_, _

KVType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
QUANTIZED_KV_TYPES = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")

_OFF = N_("off")
_COLD = 1e-6  # the highest temperature that is as good as 0
_ANSWER, _CREATIVITY, _REPETITION, _EXPERT = N_("Answer"), N_("Creativity"), N_("Repetition"), N_("Expert sampling")
_FORM, _TEMPLATE = N_("Form of the answer"), N_("Chat template")
_POSITIONS = N_("Longer contexts")
_MODEL, _MEMORY, _SPEED, _GPU = N_("Model"), N_("Memory"), N_("Speed"), N_("Graphics card")
_SPECULATION = N_("Speculation")


class UnusableText(BadSetting):
    """A text whose wording its setting cannot use: a grammar, a schema, a bias. Says what is wrong with the text."""

    def __init__(self, name: str, reason: UserError) -> None:
        info = reason.info
        UserError.__init__(self, info.title, info.message, info.hint, details=name, code=info.code)
        self.field = name


class FormGivenTwice(UserError):
    """Both a grammar and a JSON schema."""

    code = "form_given_twice"

    def __init__(self) -> None:
        super().__init__(
            _("There are both a grammar and a JSON schema."),
            _("An answer can be held to one of them."),
            _("Clear the other one."),
        )


class SamplingParams(SettingsGroup, frozen=True):
    """How the next token is chosen, and when an answer ends. Takes effect with the next message."""

    max_tokens: Annotated[
        int,
        Setting(
            title=N_("Answer length"),
            help=N_("The answer ends after this many tokens; a token is about three quarters of an English word."),
            section=_ANSWER, unit=N_("tokens"), minimum=1, maximum=1_000_000, step=64,
            special={-1: N_("as long as the model wants")},
        ),
    ] = -1
    stop: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("Stop texts"),
            help=N_("The answer ends before any of these texts; the text itself is not shown."),
            section=_ANSWER, advanced=True,
        ),
    ] = ()
    template: Annotated[
        str,
        Setting(
            title=N_("Chat template"),
            help=N_("How a conversation is written for the model: empty is the model’s own; else one of its templates "
                    "by name, chatml, llama3, mistral, gemma … (“quern info” lists them), the path of a file, or raw."),
            section=_TEMPLATE, advanced=True,
        ),
    ] = ""
    template_vars: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("Template variables"),
            help=N_("Switches that the chat template reads, as in enable_thinking=false; “quern info” lists them."),
            section=_TEMPLATE, advanced=True, flag="template-var",
        ),
    ] = ()
    context_policy: Annotated[
        Literal["drop_turns", "shift", "stop"],
        Setting(
            title=N_("When the context is full"),
            help=N_("Leave out the oldest turns; or also forget the oldest part while an answer is written; or stop."),
            section=_ANSWER, advanced=True,
            labels={
                "drop_turns": N_("leave out the oldest turns"), "shift": N_("also roll on within an answer"),
                "stop": N_("leave out nothing"),
            },
        ),
    ] = "drop_turns"
    seed: Annotated[
        int,
        Setting(
            title=N_("Seed"),
            help=N_("The same seed, settings and history give the same answer. The seed used is kept with the answer."),
            section=_ANSWER, minimum=0, maximum=4_294_967_294, advanced=True,
            special={-1: N_("a new one for each answer")},
        ),
    ] = -1
    temperature: Annotated[
        float,
        Setting(
            title=N_("Temperature"),
            help=N_("Higher is more varied, lower is more predictable; 0 always takes the likeliest token."),
            section=_CREATIVITY, minimum=0, maximum=10, step=0.05,
            special={0.0: N_("always the likeliest")},
        ),
    ] = 0.8
    top_k: Annotated[
        int,
        Setting(
            title=N_("Top-k"),
            help=N_("Only this many of the likeliest tokens stay in the draw."),
            section=_CREATIVITY, minimum=0, maximum=1_000_000, step=1, special={0: _OFF},
        ),
    ] = 40
    top_p: Annotated[
        float,
        Setting(
            title=N_("Top-p"),
            help=N_("Only the likeliest tokens that together reach this probability stay in the draw; 1 is off."),
            section=_CREATIVITY, minimum=0, maximum=1, step=0.01, special={1.0: _OFF},
        ),
    ] = 0.95
    min_p: Annotated[
        float,
        Setting(
            title=N_("Min-p"),
            help=N_("Only tokens at least this likely, compared with the likeliest one, stay in the draw."),
            section=_CREATIVITY, minimum=0, maximum=1, step=0.01, special={0.0: _OFF},
        ),
    ] = 0.05
    repeat_penalty: Annotated[
        float,
        Setting(
            title=N_("Repeat penalty"),
            help=N_("Makes tokens that were used lately less likely: above 1 discourages repetition, 1 is off."),
            section=_REPETITION, minimum=0, maximum=10, exclusive_minimum=True, step=0.01, special={1.0: _OFF},
        ),
    ] = 1.0
    presence_penalty: Annotated[
        float,
        Setting(
            title=N_("Presence penalty"),
            help=N_("Subtracted from the score of every token that was used lately, however often."),
            section=_REPETITION, minimum=-10, maximum=10, step=0.05, advanced=True, special={0.0: _OFF},
        ),
    ] = 0.0
    frequency_penalty: Annotated[
        float,
        Setting(
            title=N_("Frequency penalty"),
            help=N_("Subtracted from a token's score once for each time it was used lately."),
            section=_REPETITION, minimum=-10, maximum=10, step=0.05, advanced=True, special={0.0: _OFF},
        ),
    ] = 0.0
    penalty_window: Annotated[
        int,
        Setting(
            title=N_("Penalty window"),
            help=N_("How many of the last tokens count as “used lately” for the three penalties above."),
            section=_REPETITION, unit=N_("tokens"), minimum=0, maximum=1_000_000, step=16, advanced=True,
            special={0: _OFF, -1: N_("the whole context")},
        ),
    ] = 64
    dry_multiplier: Annotated[
        float,
        Setting(
            title=N_("DRY strength"),
            help=N_("Discourages repeating whole phrases; 0.8 is a good start, 0 is off."),
            section=_REPETITION, minimum=0, maximum=10, step=0.05, advanced=True, special={0.0: _OFF},
        ),
    ] = 0.0
    dry_base: Annotated[
        float,
        Setting(
            title=N_("DRY base"),
            help=N_("How fast the DRY penalty grows with the length of the repeated phrase."),
            section=_REPETITION, minimum=1, maximum=10, step=0.05, advanced=True,
        ),
    ] = 1.75
    dry_allowed_length: Annotated[
        int,
        Setting(
            title=N_("DRY allowed length"),
            help=N_("Phrases up to this many tokens may repeat without a DRY penalty."),
            section=_REPETITION, unit=N_("tokens"), minimum=0, maximum=1000, step=1, advanced=True,
        ),
    ] = 2
    dry_window: Annotated[
        int,
        Setting(
            title=N_("DRY window"),
            help=N_("How many of the last tokens DRY searches for repeated phrases."),
            section=_REPETITION, unit=N_("tokens"), minimum=0, maximum=1_000_000, step=16, advanced=True,
            special={0: _OFF, -1: N_("the whole context")},
        ),
    ] = 64
    dry_breakers: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("DRY breakers"),
            help=N_("Texts that end a phrase for DRY, so that lists and dialogues may repeat their form."),
            section=_REPETITION, advanced=True,
        ),
    ] = ("\n", ":", '"', "*")
    typical_p: Annotated[
        float,
        Setting(
            title=N_("Typical-p"),
            help=N_("Keeps tokens whose surprise is near the average, up to this probability in sum; 1 is off."),
            section=_EXPERT, minimum=0, maximum=1, step=0.01, advanced=True, special={1.0: _OFF},
        ),
    ] = 1.0
    top_n_sigma: Annotated[
        float,
        Setting(
            title=N_("Top-n-sigma"),
            help=N_("Keeps tokens whose score is within this many standard deviations of the best."),
            section=_EXPERT, minimum=0, maximum=100, step=0.1, advanced=True, exclusive_minimum=True,
            special={-1.0: _OFF},
        ),
    ] = -1.0
    xtc_probability: Annotated[
        float,
        Setting(
            title=N_("XTC chance"),
            help=N_("The chance, for each token, that XTC removes the likeliest choices to surprise you; 0 is off."),
            section=_EXPERT, minimum=0, maximum=1, step=0.05, advanced=True, special={0.0: _OFF},
        ),
    ] = 0.0
    xtc_threshold: Annotated[
        float,
        Setting(
            title=N_("XTC threshold"),
            help=N_("XTC removes all tokens above this probability but the least likely of them; above 0.5 is off."),
            section=_EXPERT, minimum=0, maximum=1, step=0.05, advanced=True,
        ),
    ] = 0.1
    dynatemp_range: Annotated[
        float,
        Setting(
            title=N_("Temperature range"),
            help=N_("Lets the temperature move this far up and down with how unsure the model is; 0 is off."),
            section=_EXPERT, minimum=0, maximum=10, step=0.05, advanced=True, special={0.0: _OFF},
        ),
    ] = 0.0
    dynatemp_exponent: Annotated[
        float,
        Setting(
            title=N_("Temperature curve"),
            help=N_("How the moving temperature follows the model's doubt; 1 is a straight line."),
            section=_EXPERT, minimum=0, maximum=10, exclusive_minimum=True, step=0.1, advanced=True,
        ),
    ] = 1.0
    mirostat: Annotated[
        Literal["0", "1", "2"],
        Setting(
            title=N_("Mirostat"),
            help=N_("Steers the surprise of the text to a target, in place of the filters; versions 1 and 2."),
            section=_EXPERT, advanced=True, labels={"0": _OFF, "1": N_("version 1"), "2": N_("version 2")},
        ),
    ] = "0"
    mirostat_tau: Annotated[
        float,
        Setting(
            title=N_("Mirostat target"),
            help=N_("The surprise that Mirostat aims at; lower is more focused."),
            section=_EXPERT, minimum=0, maximum=20, step=0.1, advanced=True,
        ),
    ] = 5.0
    mirostat_eta: Annotated[
        float,
        Setting(
            title=N_("Mirostat rate"),
            help=N_("How fast Mirostat corrects itself."),
            section=_EXPERT, minimum=0, maximum=1, step=0.01, advanced=True,
        ),
    ] = 0.1
    adaptive_p_target: Annotated[
        float,
        Setting(
            title=N_("Adaptive-p target"),
            help=N_("Favours tokens near this probability, in place of the plain draw; works best with min-p on."),
            section=_EXPERT, minimum=0, maximum=1, step=0.05, advanced=True, special={-1.0: _OFF},
        ),
    ] = -1.0
    adaptive_p_decay: Annotated[
        float,
        Setting(
            title=N_("Adaptive-p memory"),
            help=N_("How long adaptive-p remembers: its average spans about 1/(1 - this) tokens."),
            section=_EXPERT, minimum=0, maximum=0.99, step=0.01, advanced=True,
        ),
    ] = 0.9
    logit_bias: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("Logit bias"),
            help=N_("Makes single tokens likelier or less likely, as in 15043=-2 or \" word\"=+5; -inf forbids one."),
            section=_EXPERT, advanced=True,
        ),
    ] = ()
    grammar: Annotated[
        str,
        Setting(
            title=N_("Grammar"),
            help=N_("The answer follows this grammar (GBNF), which begins with a rule “root”."),
            section=_FORM, advanced=True, widget="lines",
        ),
    ] = ""
    json_schema: Annotated[
        str,
        Setting(
            title=N_("JSON schema"),
            help=N_("The answer is JSON that follows this schema; {} stands for any JSON."),
            section=_FORM, advanced=True, widget="lines",
        ),
    ] = ""

    @property
    def greedy(self) -> bool:
        """True where the likeliest token is always taken.

        Below a millionth nothing but it has any chance, and dividing scores by such numbers would overflow.
        """
        return self.temperature < _COLD

    @classmethod
    def title(cls) -> str:
        return _("Sampling")

    def check_together(self) -> None:
        if self.grammar and self.json_schema:
            raise UnusableText("json_schema", FormGivenTwice())
        for name, check in _TEXT_CHECKS.items():
            value = getattr(self, name)
            try:
                if value:
                    check(value)
            except UserError as error:
                raise UnusableText(name, error) from error


def _check_variables(written: tuple[str, ...]) -> None:
    from runtime.template_variables import check_variables  # brings Jinja, which few need

    check_variables(written)


_TEXT_CHECKS: dict[str, Callable[[Any], None]] = {
    "grammar": check_grammar, "json_schema": check_schema, "logit_bias": check_biases,
    "template_vars": _check_variables, "stop": check_stop_texts,
}  # fmt: skip


class LoadParams(SettingsGroup, frozen=True):
    """How a model is loaded. Takes effect when the model is loaded anew."""

    engine: Annotated[
        Literal["auto", "llama", "native"],
        Setting(
            title=N_("Engine"),
            help=N_("What runs the model. llama.cpp is the fast one and takes the least memory; it reads GGUF files. "
                    "Quern's own is slower, but reads folders with safetensors as well and can show what happens "
                    "inside the model. Automatic takes llama.cpp wherever it can."),
            section=_MODEL, applies=Applies.RELOAD,
            labels={
                "auto": N_("automatic"), "llama": N_("fast (llama.cpp)"), "native": N_("open (Quern's own)"),
            },
        ),
    ] = "auto"
    dtype: Annotated[
        Literal["auto", "f32", "bf16", "f16", "int8", "int4"],
        Setting(
            title=N_("Number format"),
            help=N_("How Quern's own engine keeps the weights: f32 is exact, bf16 takes half the memory, int8 a "
                    "quarter, int4 an eighth. Automatic is bf16 where the processor computes in it, else f32."),
            section=_MODEL, applies=Applies.RELOAD, advanced=True, labels={"auto": N_("automatic")},
        ),
    ] = "auto"
    lora: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("LoRA adapters"),
            help=N_("Files with changes to the model's weights (GGUF). A factor of 0.5 takes half of one's changes; "
                    "where a path is typed, it follows as =0.5."),
            section=_MODEL, applies=Applies.RELOAD, advanced=True, paths=True, widget="adapters",
        ),
    ] = ()
    context_length: Annotated[
        int,
        Setting(
            title=N_("Context length"),
            help=N_("How many tokens of the conversation the model can see at once; more needs more memory."),
            section=_MEMORY, unit=N_("tokens"), minimum=16, maximum=16_777_216, step=1024, applies=Applies.RELOAD,
            special={0: N_("the model's own, at most 4,096")},
        ),
    ] = 0
    kv_type_k: Annotated[
        KVType,
        Setting(
            title=N_("K cache type"),
            help=N_("The number format of the cached keys; q8_0 halves the memory of f16 at almost no loss."),
            section=_MEMORY, applies=Applies.RELOAD, advanced=True,
        ),
    ] = "f16"
    kv_type_v: Annotated[
        KVType,
        Setting(
            title=N_("V cache type"),
            help=N_("The number format of the cached values; a quantized one needs flash attention."),
            section=_MEMORY, applies=Applies.RELOAD, advanced=True,
        ),
    ] = "f16"
    flash_attention: Annotated[
        Literal["auto", "on", "off"],
        Setting(
            title=N_("Flash attention"),
            help=N_("A faster way to compute attention that needs less memory."),
            section=_MEMORY, applies=Applies.RELOAD, advanced=True,
            labels={"auto": N_("automatic"), "on": N_("on"), "off": N_("off")},
        ),
    ] = "auto"
    swa_full: Annotated[
        bool,
        Setting(
            title=N_("Full cache for sliding windows"),
            help=N_("Models that look back only a window keep everything: more memory, but edits far back are quick."),
            section=_MEMORY, applies=Applies.RELOAD, advanced=True,
        ),
    ] = False
    mmap: Annotated[
        Literal["auto", "on", "off"],
        Setting(
            title=N_("Map the file"),
            help=N_(
                "On reads the model from disk as it is needed; off reads all of it into memory first, which writes "
                "faster. Automatic reads it where it takes no more than half of the free memory."
            ),
            section=_MEMORY, applies=Applies.RELOAD, advanced=True,
            labels={"auto": N_("automatic"), "on": N_("on"), "off": N_("off")},
        ),
    ] = "auto"
    mlock: Annotated[
        bool,
        Setting(
            title=N_("Keep in memory"),
            help=N_("Forbids the system to move the model out of memory; fails where the system does not allow it."),
            section=_MEMORY, applies=Applies.RELOAD, advanced=True,
        ),
    ] = False
    threads: Annotated[
        int,
        Setting(
            title=N_("Threads"),
            help=N_("How many processor cores write the answer."),
            section=_SPEED, minimum=1, maximum=1024, step=1, applies=Applies.RELOAD, advanced=True,
            special={0: N_("one for each physical core")},
        ),
    ] = 0
    prompt_threads: Annotated[
        int,
        Setting(
            title=N_("Prompt threads"),
            help=N_("How many processor cores read the prompt."),
            section=_SPEED, minimum=1, maximum=1024, step=1, applies=Applies.RELOAD, advanced=True,
            special={0: N_("the same as threads")},
        ),
    ] = 0
    cpu_variant: Annotated[
        str,
        Setting(
            title=N_("Processor code"),
            help=N_("The build of llama.cpp's processor code, by a name that “quern doctor” lists, such as haswell; "
                    "auto takes the best one that runs here. It is chosen when the engine starts."),
            section=_SPEED, applies=Applies.RELOAD, advanced=True, widget="processor_code",
        ),
    ] = "auto"
    batch: Annotated[
        int,
        Setting(
            title=N_("Batch"),
            help=N_("At most this many tokens of the prompt are handed over at once; the micro-batch is never larger."),
            section=_SPEED, unit=N_("tokens"), minimum=1, maximum=1_048_576, step=128, applies=Applies.RELOAD,
            advanced=True,
        ),
    ] = 2048
    micro_batch: Annotated[
        int,
        Setting(
            title=N_("Micro-batch"),
            help=N_("How many tokens of the prompt are computed at once; progress follows. More needs more memory."),
            section=_SPEED, unit=N_("tokens"), minimum=1, maximum=1_048_576, step=128, applies=Applies.RELOAD,
            advanced=True,
        ),
    ] = 512
    gpu_layers: Annotated[
        int,
        Setting(
            title=N_("Layers on the graphics card"),
            help=N_("How many layers the graphics card computes; without one, all run on the processor."),
            section=_GPU, minimum=0, maximum=10_000, step=1, applies=Applies.RELOAD, advanced=True,
            special={-1: N_("all that fit")},
        ),
    ] = -1
    devices: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("Devices"),
            help=N_("The graphics cards to use, by the names that “quern doctor” lists; CPU uses none of them."),
            section=_GPU, applies=Applies.RELOAD, advanced=True, flag="device",
        ),
    ] = ("auto",)
    split_mode: Annotated[
        Literal["layer", "row", "none"],
        Setting(
            title=N_("Split among cards"),
            help=N_("How several graphics cards share a model: each some layers, each a part of all, or one does it."),
            section=_GPU, applies=Applies.RELOAD, advanced=True,
            labels={"layer": N_("by layers"), "row": N_("within layers"), "none": N_("one card only")},
        ),
    ] = "layer"
    tensor_split: Annotated[
        str,
        Setting(
            title=N_("Shares of the cards"),
            help=N_("How much of a model each graphics card takes, as in 3/1; without it, by the cards' free memory."),
            section=_GPU, applies=Applies.RELOAD, advanced=True,
        ),
    ] = ""
    main_gpu: Annotated[
        int,
        Setting(
            title=N_("Main card"),
            help=N_("The number of the graphics card that does it alone, or joins the parts of split layers."),
            section=_GPU, minimum=0, maximum=15, step=1, applies=Applies.RELOAD, advanced=True,
        ),
    ] = 0
    experts_on_cpu: Annotated[
        int,
        Setting(
            title=N_("Experts on the processor"),
            help=N_("In this many of the first layers of a mixture of experts, the experts stay in ordinary memory."),
            section=_GPU, unit=N_("layers"), minimum=0, maximum=1000, step=1, applies=Applies.RELOAD, advanced=True,
            special={0: N_("none"), -1: N_("all layers")},
        ),
    ] = 0
    kv_on_gpu: Annotated[
        bool,
        Setting(
            title=N_("Cache on the graphics card"),
            help=N_("Keeps the cache beside the layers that use it; off saves graphics memory and is slower."),
            section=_GPU, applies=Applies.RELOAD, advanced=True,
        ),
    ] = True
    speculation: Annotated[
        Literal["off", "ngram", "draft"],
        Setting(
            title=N_("Speculation"),
            help=N_("Guesses the next tokens and checks them all at once: faster where the text repeats itself, or "
                    "where a small model often guesses right. What the model is likely to say stays the same."),
            section=_SPECULATION, applies=Applies.RELOAD, advanced=True,
            labels={
                "off": _OFF, "ngram": N_("guess from the text so far (n-grams)"),
                "draft": N_("guess with a draft model"),
            },
        ),
    ] = "off"
    draft_model: Annotated[
        str,
        Setting(
            title=N_("Draft model"),
            help=N_("A much smaller model with the same vocabulary that guesses: a path or a name in the library."),
            section=_SPECULATION, applies=Applies.RELOAD, advanced=True, names_model=True,
        ),
    ] = ""
    draft_tokens: Annotated[
        int,
        Setting(
            title=N_("Draft length"),
            help=N_("At most this many tokens are guessed at once; fewer where that is faster."),
            section=_SPECULATION, unit=N_("tokens"), minimum=1, maximum=256, step=4, applies=Applies.RELOAD,
            advanced=True,
        ),
    ] = 16
    draft_min_p: Annotated[
        float,
        Setting(
            title=N_("Least draft probability"),
            help=N_("The draft model stops guessing where its best token is less likely than this."),
            section=_SPECULATION, minimum=0, maximum=1, step=0.05, applies=Applies.RELOAD, advanced=True,
            special={0.0: N_("as far as it is worth it")},
        ),
    ] = 0.0
    ngram_size: Annotated[
        int,
        Setting(
            title=N_("N-gram size"),
            help=N_("So many tokens must repeat before the text is taken to go on as it did before."),
            section=_SPECULATION, unit=N_("tokens"), minimum=1, maximum=16, step=1, applies=Applies.RELOAD,
            advanced=True,
        ),
    ] = 2

    rope_scaling: Annotated[
        Literal["file", "none", "linear", "yarn"],
        Setting(
            title=N_("RoPE scaling"),
            help=N_("Stretches the model's sense of position, for contexts longer than it was trained for."),
            section=_POSITIONS, applies=Applies.RELOAD, advanced=True,
            labels={"file": N_("as the file says"), "none": N_("none"), "linear": N_("linear"), "yarn": N_("YaRN")},
        ),
    ] = "file"
    rope_factor: Annotated[
        float,
        Setting(
            title=N_("RoPE factor"),
            help=N_("How many times longer than trained the context may be with RoPE scaling."),
            section=_POSITIONS, minimum=1, maximum=1000, step=0.5, applies=Applies.RELOAD, advanced=True,
            special={0.0: N_("as the file says")},
        ),
    ] = 0.0
    rope_base: Annotated[
        float,
        Setting(
            title=N_("RoPE base"),
            help=N_("The base of the frequencies that tell positions apart; a higher one reaches further."),
            section=_POSITIONS, minimum=1, maximum=1e12, exclusive_minimum=True, step=10_000, applies=Applies.RELOAD,
            advanced=True, special={0.0: N_("as the file says")},
        ),
    ] = 0.0
    yarn_original_context: Annotated[
        int,
        Setting(
            title=N_("YaRN original context"),
            help=N_("The context length before stretching, from which YaRN reckons which frequencies to stretch."),
            section=_POSITIONS, unit=N_("tokens"), minimum=16, maximum=16_777_216, step=1024, applies=Applies.RELOAD,
            advanced=True, special={0: N_("as the file says")},
        ),
    ] = 0
    yarn_ext_factor: Annotated[
        float,
        Setting(
            title=N_("YaRN mix"),
            help=N_("How far YaRN spares the high frequencies: 1 is YaRN, 0 stretches all alike, as linear does."),
            section=_POSITIONS, minimum=0, maximum=1, step=0.05, applies=Applies.RELOAD, advanced=True,
            special={-1.0: N_("as the file says")},
        ),
    ] = -1.0
    yarn_beta_fast: Annotated[
        float,
        Setting(
            title=N_("YaRN fast beta"),
            help=N_("Frequencies that turn more often than this within the original context are not stretched."),
            section=_POSITIONS, minimum=0, maximum=1000, exclusive_minimum=True, step=1, applies=Applies.RELOAD,
            advanced=True, special={-1.0: N_("as the file says")},
        ),
    ] = -1.0
    yarn_beta_slow: Annotated[
        float,
        Setting(
            title=N_("YaRN slow beta"),
            help=N_("Frequencies that turn less often than this within the original context are stretched in full."),
            section=_POSITIONS, minimum=0, maximum=1000, exclusive_minimum=True, step=1, applies=Applies.RELOAD,
            advanced=True, special={-1.0: N_("as the file says")},
        ),
    ] = -1.0

    @classmethod
    def title(cls) -> str:
        return _("Loading")

    def check_together(self) -> None:
        for name, check in (("lora", check_adapters), ("tensor_split", read_split)):
            try:
                check(getattr(self, name))
            except UserError as error:
                raise UnusableText(name, error) from error
        if self.flash_attention == "off" and self.kv_type_v in QUANTIZED_KV_TYPES:
            allowed = _("f32, f16 or bf16 while flash attention is off")
            raise BadSetting(field_of(LoadParams, "kv_type_v"), self.kv_type_v, allowed)
        if self.rope_scaling == "none" and self.rope_factor > 1:
            allowed = _("0 or 1 while RoPE scaling is “none”")
            raise BadSetting(field_of(LoadParams, "rope_factor"), self.rope_factor, allowed)


class AppSettings(SettingsGroup, frozen=True):
    """The window's own settings. Take effect at once."""

    language: Annotated[
        Literal["system", "en", "zh_CN"],
        Setting(
            title=N_("Language"),
            help=N_("The language of the window and of messages."),
            section=N_("Appearance"), applies=Applies.NOW,
            labels={"system": N_("as the system"), "en": "English", "zh_CN": "简体中文"},
        ),
    ] = "system"
    theme: Annotated[
        Literal["system", "light", "dark"],
        Setting(
            title=N_("Theme"),
            help=N_("Light or dark colours."),
            section=N_("Appearance"), applies=Applies.NOW,
            labels={"system": N_("as the system"), "light": N_("light"), "dark": N_("dark")},
        ),
    ] = "system"
    tray: Annotated[
        bool,
        Setting(
            title=N_("Stay in the tray"),
            help=N_("Closing the window leaves Quern in the desktop's tray, where it tells of finished answers; Quit "
                    "is in its menu. Where the desktop has no tray, closing ends Quern."),
            section=N_("Appearance"), applies=Applies.NOW,
        ),
    ] = False
    model: Annotated[
        str,
        Setting(
            title=N_("Model"),
            help=N_("The model that is loaded when Quern starts: a path, a name in the library, or “starter”."),
            section=N_("Start"), applies=Applies.NOW,
        ),
    ] = "starter"
    load_at_start: Annotated[
        bool,
        Setting(
            title=N_("Load at start"),
            help=N_("Loads the model when Quern starts, so that the first answer comes sooner."),
            section=N_("Start"), applies=Applies.NOW,
        ),
    ] = True
    model_folders: Annotated[
        tuple[str, ...],
        Setting(
            title=N_("Folders with models"),
            help=N_("Models are looked for here too, besides Quern's own folder and those of other programs."),
            section=N_("Library"), applies=Applies.NOW, paths=True, widget="folders",
        ),
    ] = ()

    @classmethod
    def title(cls) -> str:
        return _("Application")


GROUPS: tuple[type[SettingsGroup], ...] = (AppSettings, SamplingParams, LoadParams)
