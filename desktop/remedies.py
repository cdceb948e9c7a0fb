"""What the window offers to do about each error, as a table: the error's code, the action, and the button's words.

Every code has a place here: an action that the program can take itself, or the reason why it cannot. Knows no widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runtime.params import LoadParams, SamplingParams
from runtime.settings import field_of
from runtime.text import N_, _


class Action(StrEnum):
    """What can be done with one click."""

    RETRY = "retry"  # the answer is asked for again
    LOAD = "load"  # the model is loaded again
    LOAD_ANYWAY = "load_anyway"
    SMALLER_CONTEXT = "smaller_context"  # and the model is loaded again
    LARGER_CONTEXT = "larger_context"  # as above, and the answer asked for again
    MODELS = "models"  # the list of models opens
    LIBRARY = "library"
    TEMPLATE = "template"
    UNPIN = "unpin"  # and the answer is asked for again
    NEW_CHAT = "new_chat"
    SETTING = "setting"  # the settings open where it is
    DATA_FOLDER = "data_folder"
    BACKUPS = "backups"
    LOGS = "logs"
    DIAGNOSTICS = "diagnostics"
    IMPORT = "import"


_WORDS = {
    Action.RETRY: N_("Try again"),
    Action.LOAD: N_("Load it again"),
    Action.LOAD_ANYWAY: N_("Load anyway"),
    Action.SMALLER_CONTEXT: N_("Load with a smaller context"),
    Action.LARGER_CONTEXT: N_("Load with a larger context"),
    Action.MODELS: N_("Choose a model"),
    Action.LIBRARY: N_("Open the library"),
    Action.TEMPLATE: N_("Choose a template"),
    Action.UNPIN: N_("Unpin all messages"),
    Action.NEW_CHAT: N_("Start a new chat"),
    Action.SETTING: N_("Show the setting"),
    Action.DATA_FOLDER: N_("Open the folder"),
    Action.BACKUPS: N_("Look at the backups"),
    Action.LOGS: N_("Show the logs"),
    Action.DIAGNOSTICS: N_("Show the diagnostics"),
    Action.IMPORT: N_("Choose another file"),
}


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action and, for a setting, the group and the name that it is about."""

    action: Action
    group: type = SamplingParams
    name: str = ""

    @property
    def words(self) -> str:
        """What its button says, translated."""
        return _(_WORDS[self.action])

    @property
    def title(self) -> str:
        """The setting's title, translated; empty where it is about none."""
        return _(field_of(self.group, self.name).setting.title) if self.name else ""


def _setting(name: str, group: type = SamplingParams) -> Remedy:
    return Remedy(Action.SETTING, group, name)


_MODELS, _LIBRARY, _RETRY, _TEMPLATE = map(Remedy, (Action.MODELS, Action.LIBRARY, Action.RETRY, Action.TEMPLATE))
_SMALLER, _LARGER, _DIAGNOSTICS = map(Remedy, (Action.SMALLER_CONTEXT, Action.LARGER_CONTEXT, Action.DIAGNOSTICS))
_DATA_FOLDER = Remedy(Action.DATA_FOLDER)
_ADAPTERS, _DRAFT = _setting("lora", LoadParams), _setting("draft_model", LoadParams)
_VARIANT = _setting("cpu_variant", LoadParams)

REMEDIES: dict[str, Remedy] = {
    # the context
    "prompt_too_long": _LARGER,
    "pinned_too_long": Remedy(Action.UNPIN),
    "nothing_may_be_left_out": _setting("context_policy"),
    "source_too_long": _LARGER,
    # memory
    "no_room_for_context": _SMALLER,
    "no_room_for_model": _MODELS,
    "memory_full": _SMALLER,
    "out_of_memory": _SMALLER,
    "engine_out_of_memory": _SMALLER,
    "engine_killed": _SMALLER,
    "evaluation_failed": _SMALLER,
    # the engine
    "engine_ended": _RETRY,
    "engine_fault": _RETRY,
    "engine_ended_from_outside": _RETRY,
    "engine_hung": _RETRY,
    "system_refused": _RETRY,
    "engine_bug": _RETRY,
    "engine_check_failed": _MODELS,
    "engine_file_gone": Remedy(Action.LOAD),
    "engine_card_failed": _setting("devices", LoadParams),
    "engine_not_started": _DIAGNOSTICS,
    "engine_illegal_instruction": _DIAGNOSTICS,
    "engine_library": _DIAGNOSTICS,
    "engine_mismatch": _DIAGNOSTICS,
    "renderer_unavailable": _DIAGNOSTICS,
    "no_variant": _DIAGNOSTICS,
    "network_closed": _DIAGNOSTICS,
    "bug": _DIAGNOSTICS,
    "fatal_last_time": Remedy(Action.LOAD_ANYWAY),
    "load_cancelled": Remedy(Action.LOAD),
    "load_stopped": Remedy(Action.LOAD),
    # models and their files
    "no_model": _MODELS,
    "no_model_chosen": _MODELS,
    "unknown_model": _MODELS,
    "ambiguous_model": _MODELS,
    "starter_missing": _MODELS,
    "load_failed": _MODELS,
    "model_missing": _LIBRARY,
    "model_part_missing": _LIBRARY,
    "model_unreadable": _LIBRARY,
    "damaged_model": _MODELS,
    "not_a_model": _MODELS,
    "unsupported_model": _MODELS,
    "unsafe_pickle": _MODELS,
    "unknown_architecture": _MODELS,
    "unusable_model_config": _MODELS,
    "unknown_rope_scaling": _MODELS,
    "leftover_tensors": _MODELS,
    "missing_tensors": _MODELS,
    "wrong_tensor_shape": _MODELS,
    "whole_numbers": _MODELS,
    "task_head": _MODELS,
    "adapter_only": _MODELS,
    "adapter_not_model": _MODELS,
    "no_weights": _MODELS,
    "no_config": _MODELS,
    "shard_missing": _MODELS,
    "no_tokenizer": _MODELS,
    "no_vocabulary": _MODELS,
    "writes_no_text": _MODELS,
    "holds_no_conversation": _MODELS,
    "invalid_numbers": _MODELS,
    "full_edition_needed": _MODELS,
    "torch_missing": _MODELS,
    "unknown_token": _MODELS,
    # templates
    "no_template": _TEMPLATE,
    "template_choice": _TEMPLATE,
    "template_broken": _TEMPLATE,
    "template_refused": _TEMPLATE,
    "template_too_large": _TEMPLATE,
    "template_timeout": _TEMPLATE,
    "template_unreadable": _TEMPLATE,
    "template_cannot_continue": _RETRY,
    "bad_template_variable": _setting("template_vars"),
    # settings
    "bad_grammar": _setting("grammar"),
    "grammar_too_slow": _setting("grammar"),
    "not_as_written": _setting("grammar"),
    "stop_texts_too_long": _setting("stop"),
    "form_given_twice": _setting("grammar"),
    "bad_json_schema": _setting("json_schema"),
    "schema_failed": _setting("json_schema"),
    "bad_logit_bias": _setting("logit_bias"),
    "bad_adapter": _ADAPTERS,
    "adapter_missing": _ADAPTERS,
    "adapter_failed": _ADAPTERS,
    "adapter_mismatch": _ADAPTERS,
    "not_an_adapter": _ADAPTERS,
    "unsupported_adapter": _ADAPTERS,
    "no_draft_model": _DRAFT,
    "draft_vocabulary": _DRAFT,
    "unknown_device": _setting("devices", LoadParams),
    "no_such_card": _setting("main_gpu", LoadParams),
    "bad_tensor_split": _setting("tensor_split", LoadParams),
    "unknown_variant": _VARIANT,
    "variant_refused": _VARIANT,
    # chats and the profile
    "chats_not_saved": _DATA_FOLDER,
    "chats_damaged": Remedy(Action.BACKUPS),
    "chats_unreadable": _DATA_FOLDER,
    "newer_chats": _DATA_FOLDER,
    "unwritable_place": _DATA_FOLDER,
    "unwritable_file": _DATA_FOLDER,
    "state_not_saved": _DATA_FOLDER,
    "chat_gone": Remedy(Action.NEW_CHAT),
    "context_at_most": Remedy(Action.NEW_CHAT),
    "not_a_chat": Remedy(Action.IMPORT),
    "log_unreadable": Remedy(Action.LOGS),
}

# Where a button stands already, or nothing but the person can help.
ELSEWHERE: dict[str, str] = {
    "bad_setting": "said under the field that holds the value, which has the keyboard",
    "not_a_preset": "said beside the button that chooses a preset",
    "unusable_name": "said over the field with the name",
    "model_not_moved": "said in the library, over the model that was left as it is",
    "memory_unknown": "the estimate takes its place without a word",
    "bad_receipt": "said in the card of the answer, whose other answers can be chosen",
    "replay_refused": "the card's own button then says “Compare all the same”",
    "reading_stopped": "the person stopped it",
    "reading_failed": "said in the card of the answer, whose button tries again",
    "hashing_stopped": "nobody waits for it",
    "not_text": "the person drops another file",
    "notebook_gone": "the page shows another notebook",
    "backup_failed": "said over the list of backups, where another one can be chosen",
    "nothing_to_continue": "an empty message cannot be sent",
    "no_source": "an empty message cannot be sent",
}

# Errors of the converter are shown on its page, between the fields and buttons that help.
OF_THE_CONVERTER = (
    "bad_pattern", "bad_size", "base_needed", "conversion_stopped", "convert_bug", "different_vocabularies",
    "folder_in_the_way", "foreign_importance_matrix", "holds_other_things", "importance_needed", "job_died",
    "no_graph", "no_model_inside", "no_room", "no_tokenizer_back", "not_an_importance_matrix",
    "not_for_adapters", "not_for_folders", "not_numbers", "not_written", "nothing_fits", "phase_died",
    "quantized_already", "target_exists", "target_in_use", "target_is_device", "target_is_source",
    "text_too_short", "tokenizer_differs", "unknown_recipe", "unknown_tensor_type", "verification_failed",
    "vocabulary_misfit", "wishes_without_quantizing", "wrong_numbers", "wrong_values",
)  # fmt: skip

# These end a command, or the start before there is a window.
NOT_IN_THE_WINDOW = (
    "already_running", "beams_are_free", "engine_died", "no_beam_search", "no_display", "no_home",
    "no_score_without_source", "no_such_part", "nothing_to_embed", "nothing_to_inspect", "nothing_to_score",
    "platform_library_missing", "receipt_unreadable", "text_too_long", "too_long_to_inspect",
)  # fmt: skip


def remedy_for(code: str) -> Remedy | None:
    """Returns what can be done about an error with one click."""
    return REMEDIES.get(code)


def words_for(code: str) -> str:
    """Returns the words of the button that helps, empty where there is none."""
    remedy = REMEDIES.get(code)
    return remedy.words if remedy is not None else ""
