"""Whether the code of a page in docs/clients is a part of the program that runs it as scenario `page`."""
import glob
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
PAGES = {"proton": "proton-python"}     # where a page is not called as its client
ENDINGS = {"python": "py", "javascript": "js", "go": "go", "cpp": "cpp", "java": "java",
           "csharp": "cs", "rust": "rs"}
FOLDERS = {"fe2o3-amqp": os.path.join("..", "examples", "interop")}
BLOCK = re.compile(r"^```(%s)\n(.*?)^```" % "|".join(ENDINGS), re.M | re.S)


def not_run(client):
    """the first snippet of a client's page that no source of the client holds; None if there is none"""
    page = os.path.join("docs", "clients", PAGES.get(client, client) + ".md")
    with open(os.path.join(os.path.dirname(HERE), page)) as text:
        blocks = BLOCK.findall(text.read())
    if not blocks:
        return "%s has no snippets" % page
    for language, block in blocks:
        block = without_indent(block)
        if not any(block in source for source in sources(client, ENDINGS[language])):
            return "in %s, but not in the client: %s" % (page, " ".join(block.split()))
    return None


def sources(client, ending):
    pattern = os.path.join(HERE, FOLDERS.get(client, client), "**", "*." + ending)
    for path in glob.iglob(pattern, recursive=True):
        if "node_modules" in path:
            continue
        with open(path) as text:
            yield without_indent(text.read())


def without_indent(code):
    return re.sub(r"(?m)^[ \t]+", "", code)
