"""`SafeTransformer`: a module that is saved as safetensors, and runs no code of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from sentence_transformers.sentence_transformer.modules import Transformer

from fairspan.errors import UnsupportedModel
from fairspan.model.saving import write_json
from fairspan.model.source import model_file, read_json

# Entries of a module's configuration that are handed to transformers, under new and old names.
_HANDED_ON = {"model_kwargs", "processor_kwargs", "config_kwargs"}
_HANDED_ON |= {"model_args", "tokenizer_args", "config_args"}


class SafeTransformer(Transformer):
    """A `Transformer` module with a calibration in its configuration."""

    # Programs that do not read modules.json would find a checkpoint at the root, and use it
    # without calibration.
    save_in_root = False

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write the module; raise if the folder could not be loaded with its calibration."""
        if not safe_serialization:
            raise UnsupportedModel(
                "a calibrated model is saved as safetensors only: keep safe_serialization=True."
            )
        if type(self.model).__module__.startswith("transformers_modules."):
            raise UnsupportedModel(
                f"{type(self.model).__name__} is code from a model folder, which a calibrated "
                "model never runs when it is loaded: save a checkpoint that transformers "
                "implements itself."
            )
        folder = Path(output_path).resolve().parent
        names = ("config_sentence_transformers.json", "config.json")
        if all((folder / name).is_file() for name in names):
            raise UnsupportedModel(
                f"{folder} holds a checkpoint at its root, which would still be loaded without "
                "calibration: save the calibrated model to another folder."
            )
        for adapter in getattr(self.model, "peft_config", {}).values():
            # The root of a saved calibrated model holds no checkpoint to load an adapter onto.
            base = adapter.base_model_name_or_path
            configs = Path(base or "").glob(f"*_{type(self).__name__}/config.json")
            adapter.base_model_name_or_path = next((str(file.parent) for file in configs), base)
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        # Programs with their own attention go by this name, and would use the plain model.
        config = Path(output_path, "config.json")
        if config.is_file():
            write_json(config, read_json(config) | {"architectures": [type(self).__name__]})

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> Self:
        """Load the module, without the folder's code or pickled weights, trusted or not."""
        kwargs["trust_remote_code"] = False
        for part in ("model_kwargs", "processor_kwargs", "config_kwargs"):
            kwargs[part] = {**(kwargs.get(part) or {}), "trust_remote_code": False}
        kwargs["model_kwargs"]["use_safetensors"] = True
        subfolder = kwargs.get("subfolder") or "."
        adapter = model_file(model_name_or_path, f"{subfolder}/adapter_config.json", **kwargs)
        if adapter is not None:
            pickle = Path(model_name_or_path, subfolder, "adapter_model.bin")
            if read_json(adapter).get("megatron_config") or pickle.exists():
                raise UnsupportedModel(
                    f"{adapter} asks for foreign code or pickles: save a plain safetensors adapter."
                )
            if Path(model_name_or_path).is_dir():
                # transformers finds an adapter at the root of a folder only.
                model_name_or_path = str(adapter.parent)
                kwargs["subfolder"] = ""
        loaded: Self = super().load(model_name_or_path, **kwargs)
        return loaded

    @classmethod
    def load_config(cls, model_name_or_path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The saved configuration, without arguments for transformers, which could name kernels."""
        config: dict[str, Any] = super().load_config(model_name_or_path, *args, **kwargs)
        if not isinstance(config.get("calibration"), Mapping):
            raise UnsupportedModel(
                f"{model_name_or_path}: {cls.config_file_name} holds no calibration, although "
                "modules.json names a calibrated module: save the model again."
            )
        return {name: value for name, value in config.items() if name not in _HANDED_ON}
