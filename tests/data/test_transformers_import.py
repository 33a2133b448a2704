"""Transformers is imported with what it finds in its models, read once."""

from __future__ import annotations

import json
import subprocess
import sys

from grpo_tui.data.transformers_import import _without_prefix

STRUCTURES = """
import json
from pathlib import Path

from grpo_tui.data.transformers_import import import_transformers

import transformers.utils.import_utils as names

read = []
listed = names.create_import_structure_from_path
names.create_import_structure_from_path = lambda path: read.append(str(path)) or listed(path)
import_transformers()
names.create_import_structure_from_path = listed
import transformers
from transformers.models.llama import LlamaConfig

package = transformers.models
own = dict(package._class_to_module)
structure = names.define_import_structure(package.__file__)
true = type(package)(package.__name__, package.__file__, structure, module_spec=package.__spec__)
print(json.dumps({
    "read": read,
    "same": own == true._class_to_module and package._modules == true._modules,
    "names": len(own),
    "restored": names.define_import_structure.__module__ == names.__name__,
    "config": LlamaConfig.__module__,
}))
"""


def test_the_models_are_read_once_and_nothing_of_them_is_lost() -> None:
    done = subprocess.run([sys.executable, "-c", STRUCTURES], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["read"] == [], "transformers has read them when it was imported itself"
    assert found["same"]
    assert found["names"] > 1000
    assert found["restored"]
    assert found["config"] == "transformers.models.llama.configuration_llama"


def test_a_structure_of_another_form_is_not_used() -> None:
    assert _without_prefix(["models.llama"]) == {}
    assert _without_prefix({"needs": ["models.llama"]}) == {}
