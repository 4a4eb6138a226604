"""sefl/_abi.py repeats include/sefl/*.h exactly."""
from __future__ import annotations

import ctypes as c
import re
import subprocess
import unittest

from support import FOLDER, INCLUDE, compile_c

from sefl import _abi

HEADERS = sorted(p.name for p in INCLUDE.glob("sefl/*.h"))

SIMPLE = {
    "void": None,
    "int": c.c_int,
    "unsigned": c.c_uint,
    "uint64_t": c.c_uint64,
    "size_t": c.c_size_t,
    "double": c.c_double,
    "sefl_status": c.c_int,
    "char *": c.c_char_p,
    "float *": c.POINTER(c.c_float),
}
OBJECTS = {
    **_abi.STRUCTS,
    "sefl_client": _abi.ClientHandle,
    "sefl_aggregator": _abi.AggregatorHandle,
    "sefl_csp": _abi.CspHandle,
}


def ctype(text: str) -> object:
    """The ctypes form of a C type of the headers, such as `const sefl_tensor *`."""
    text = re.sub(r"\s+", " ", text.replace("const ", "")).strip()
    if text in SIMPLE:
        return SIMPLE[text]
    name, stars = re.fullmatch(r"(\w+) (\*+)", text).groups()
    kind: type = OBJECTS[name]
    for _ in stars:
        kind = c.POINTER(kind)
    return kind


def prototypes() -> dict[str, tuple[object, ...]]:
    found = {}
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "sefl" / header).read_text(), flags=re.S)
        for result, name, arguments in re.findall(
            r"SEFL_API ([\w ]+[ *]+)(sefl_\w+)\(([^)]*)\);", text
        ):
            types = [] if arguments.strip() == "void" else arguments.split(",")
            types = [re.sub(r"\w+$", "", a.strip()) for a in types]  # without the name
            found[name] = (ctype(result), *(ctype(a) for a in types))
    return found


def kind(field: object) -> str:
    if isinstance(field, type) and issubclass(field, c.Array):
        return kind(field._type_) + "[]"
    if isinstance(field, type) and issubclass(field, (c._Pointer, c._CFuncPtr)):
        return "pointer"
    names = {c.c_char_p: "pointer", c.c_void_p: "pointer", c.c_double: "double", c.c_float: "float",
             c.c_char: "char"}
    if field in names:
        return names[field]
    return ("i" if field(-1).value < 0 else "u") + str(8 * c.sizeof(field))


def layout_program() -> str:
    """A C program that prints each constant, struct and field as the compiler sees them."""
    lines = [f'#include "sefl/{h}"' for h in HEADERS]
    lines += [
        "#include <stdio.h>",
        '#define KIND(x) _Generic((x), float: "float", double: "double", char: "char",'
        ' uint8_t: "u8", int: "i32", unsigned: "u32", int64_t: "i64", uint64_t: "u64",'
        ' char *: "char[]", uint8_t *: "u8[]", uint64_t *: "u64[]", default: "pointer")',
        "int main(void) {",
    ]
    for names in _abi.ENUMS.values():
        lines += [f'printf("{n} %d\\n", (int)SEFL_{n});' for n in names]
    lines += [f'printf("{n} %d\\n", (int)SEFL_{n});' for n in _abi.CONSTANTS]
    for name, struct in _abi.STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for f, _ in struct._fields_:
            lines.append(
                f'{{ {name} x = {{ 0 }}; printf("{name}.{f} %zu %zu %s\\n", offsetof({name}, {f}), '
                f"sizeof x.{f}, KIND(x.{f})); }}"
            )
    return "\n".join([*lines, "return 0; }", ""])


def our_layout() -> list[str]:
    lines = []
    for names in _abi.ENUMS.values():
        lines += [f"{n} {i}" for i, n in enumerate(names)]
    lines += [f"{n} {i}" for n, i in _abi.CONSTANTS.items()]
    for name, struct in _abi.STRUCTS.items():
        lines.append(f"{name} {c.sizeof(struct)}")
        for f, t in struct._fields_:
            k = kind(t).replace("i32", "int")
            lines.append(f"{name}.{f} {getattr(struct, f).offset} {c.sizeof(t)} {k}")
    return lines


class Abi(unittest.TestCase):
    def test_layout(self) -> None:
        source = FOLDER / "layout.c"
        source.write_text(layout_program())
        program = compile_c(source, FOLDER / "layout")
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        # an enum is an int for a caller, whatever its signedness
        said = re.sub(r" [iu]32$", " int", said, flags=re.M)
        self.assertEqual(said.split("\n")[:-1], our_layout())

    def test_functions(self) -> None:
        found = prototypes()
        self.assertGreater(len(found), 25)
        self.assertEqual(found, _abi.FUNCTIONS)

    def test_members(self) -> None:
        text = "".join((INCLUDE / "sefl" / h).read_text() for h in HEADERS)
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        for name, body in re.findall(r"^typedef struct (\w+) \{(.*?)^\}", text, re.M | re.S):
            members = []
            for line in body.split(";")[:-1]:
                pointer = re.search(r"\(\*(\w+)\)\(", line)
                members += [pointer[1]] if pointer else re.findall(r"(\w+)(?:\[\d+\])?\s*(?=,|$)", line)
            self.assertEqual(members, [f for f, _ in _abi.STRUCTS[name]._fields_], name)

    def test_every_struct_and_status(self) -> None:
        text = "".join((INCLUDE / "sefl" / h).read_text() for h in HEADERS)
        self.assertEqual(set(re.findall(r"^typedef struct (\w+) \{", text, re.M)), set(_abi.STRUCTS))
        named = re.findall(r"^    SEFL_(\w+)(?: = \d+)?,?(?: *//?.*)?$", text, re.M)
        known = {*_abi.ENUMS["sefl_log_level"], *_abi.CONSTANTS}
        self.assertEqual(set(named), known)
        codes = re.findall(r"^    X\((\w+), (\d+),", text, re.M)
        self.assertEqual(codes, [(n, str(i)) for i, n in enumerate(_abi.ENUMS["sefl_status"])])


if __name__ == "__main__":
    unittest.main()
