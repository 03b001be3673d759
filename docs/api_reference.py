#!/usr/bin/env python3
"""Prints the public header as Markdown: api_reference.py [--check] HEADER OUTPUT.

The header is the one source. Its habits, which this relies on:
  - its first comment is the overview;
  - `/* ------- title`, with or without prose after it, opens a section;
  - a comment at the left margin belongs to the declarations below it, up to a blank line or the next such comment.
--check writes nothing; it fails when OUTPUT is not what would be written.
"""
import re
import sys

ATTRIBUTES = re.compile(r"\b(?:TERN_API|TERN_MALLOC|static inline)\s+")
SKIPPED = re.compile(r"^(#(if|ifdef|ifndef|else|elif|endif|include)\b|extern \"C\"|}$)|^#define (TERN_TERN_H|TERN_API|TERN_MALLOC)\b")


def prose(comment):
    """The text of a comment, its frame of stars taken off; what is indented becomes Markdown code."""
    text = re.sub(r"^/\*+ ?|\s*\*+/$", "", comment.strip())
    lines = []
    for line in text.split("\n"):
        line = re.sub(r"^ \* ?", "", line).rstrip()
        if re.match(r" {2,3}\S", line):
            if lines and lines[-1] and not lines[-1].startswith("    "):
                lines.append("")
            line = "    " + line.strip()
        lines.append(line)
    return "\n".join(lines).strip("\n")


def names(code):
    """What a group of declarations declares, in order."""
    found = []
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    outer = code
    while "{" in outer:  # leave out the bodies of structs, enums and inline functions
        outer, count = re.subn(r"\{[^{}]*\}", ";", outer)
        if count == 0:
            break
    for match in re.finditer(r"^#define (TERN_\w+)|\b(tern_\w+)(?=\s*\()|^\}?[^(]*?\b(tern_\w+)\s*;", outer, flags=re.M):
        name = next(group for group in match.groups() if group)
        if name not in found:
            found.append(name)
    return found


def groups(lines):
    """Yields (comment or None, code) for each comment at the margin and the declarations that follow it."""
    comment, code, depth, index = None, [], 0, 0
    while index < len(lines):
        line = lines[index]
        if depth == 0 and line.startswith("/*"):
            if code or comment:
                yield comment, "\n".join(code)
            start = index
            while "*/" not in lines[index]:
                index += 1
            trailing = lines[index].split("*/", 1)[1]
            comment, code = "\n".join(lines[start : index + 1]), []
            if trailing.strip():
                code.append(trailing.strip())
        elif depth == 0 and not line.strip():
            if code:
                yield comment, "\n".join(code)
                comment, code = None, []
        elif depth > 0 or not SKIPPED.match(line):
            code.append(line)
            depth += line.count("{") - line.count("}")
        index += 1
    if code or comment:
        yield comment, "\n".join(code)


def declaration(code):
    """The code as a reader wants it: attributes off, bodies of inline functions off, arguments under each other."""
    inline = re.compile(r"^(static inline [^{;]*?)\s*\{.*?^\}", re.S | re.M)
    out, shift = [], 0
    for line in inline.sub(r"\1;", code).split("\n"):
        if not line.startswith(" "):
            shift = len(line) - len(ATTRIBUTES.sub("", line))
        out.append(ATTRIBUTES.sub("", line) if not line.startswith(" ") else line[shift:] if line[:shift].isspace() else line)
    return "\n".join(out)


def anchor(title):
    """Where a heading is found in the page, by the rule that forges use."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def reference(header):
    overview, rest = re.match(r"\s*(/\*.*?\*/)(.*)", header, re.S).groups()
    out, index = [], []
    for comment, code in groups(rest.split("\n")):
        title = None
        if comment:
            text = prose(comment)
            title = re.match(r"-{10,} ?(.+)", text)
            if title:
                index.append((title.group(1)[0].upper() + title.group(1)[1:], []))
                text = text[title.end() :].strip("\n")
        else:
            text = ""
        if not index:
            index.append(("Version", []))  # what stands before the first section
        if title or not out:
            out += ["", "## " + index[-1][0]]
        if code.strip():
            heading = ", ".join(f"`{name}`" for name in names(code))
            index[-1][1].append(heading)
            out += ["", "### " + heading, "", "```c", declaration(code).strip(), "```"]
        if text:
            out += ["", text]
    top = ["# API reference", "", "Printed from `<tern/tern.h>` by `./dev docs`: change it there.", "", prose(overview), ""]
    top += [f"- [{title}](#{anchor(title)}): {', '.join(headings)}" for title, headings in index]
    return "\n".join(top + out) + "\n"


def main(arguments):
    check = arguments[:1] == ["--check"]
    header, output = arguments[1:] if check else arguments
    with open(header, encoding="utf-8") as file:
        text = reference(file.read())
    if check:
        try:
            with open(output, encoding="utf-8") as file:
                current = file.read()
        except FileNotFoundError:
            current = None
        if current != text:
            sys.exit(f"{output} is not what {header} says: run ./dev docs")
        return
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
