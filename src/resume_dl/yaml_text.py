"""YAML as conda reads it: by ruamel.yaml, conda's own library, which is a tenth of PyYAML's download."""

from __future__ import annotations

from typing import Any

from resume_dl.errors import missing_library


class YamlError(ValueError):
    """A text is not valid YAML; the message is the parser's."""


def load_yaml(text: str) -> Any:
    """Return the value of the one document in ``text``: only plain data, no objects. Raises YamlError.

    YAML 1.2, in which ``yes`` is a text; a repeated key is an error, as in conda.
    """
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise missing_library("ruamel.yaml", "which reads condarc and environment.yml") from None
    parser = YAML(typ="safe", pure=True)
    try:
        return parser.load(text)
    except (YAMLError, RecursionError, ValueError, TypeError) as error:
        # ValueError: a number or date that does not exist; TypeError: a key that holds a list
        raise YamlError(str(error) or type(error).__name__) from error
