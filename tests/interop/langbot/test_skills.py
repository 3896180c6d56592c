"""Archives and packages of skills that mean harm, or are just wrong."""

import os
import stat
import zipfile

import pytest

from .archives import packed, skill

ENTRY = {"SKILL.md": skill("packed")}


def refusal(tenant, content, **data):
    for action in ("box_preview_skill_zip", "box_install_skill_zip"):
        message = tenant.error(action, file_key=tenant.upload(content), filename="bad.zip", **data)
        assert message.startswith("BoxValidationError: "), message
    assert tenant.ok("box_list_skills") == {"skills": []}
    return message.removeprefix("BoxValidationError: ")


def link(name, target="/etc/passwd"):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return {info: target}


@pytest.mark.parametrize(
    "files",
    [
        {"../escape": "x"},
        {"a/../../escape": "x"},
        {"/absolute": "x"},
        {"C:/drive": "x"},
        link("link"),
        link("sub/link", "../.."),
        {"same/": "", "same": "x"},
        {"bomb": b"\0" * (4 << 20)},
        {f"many/{number}": "" for number in range(512)},
    ],
    ids=["parent", "hidden parent", "absolute", "drive", "link", "deep link", "file and directory", "bomb", "entries"],
)
def test_archives_that_are_refused(tenant, files):
    refusal(tenant, packed({**ENTRY, **files}, zipfile.ZIP_DEFLATED))


def test_archives_that_are_none(tenant):
    assert refusal(tenant, b"") == "Uploaded file is empty"
    assert refusal(tenant, b"PK\3\4 and then nothing") == "Uploaded file must be a valid .zip archive"
    assert refusal(tenant, packed(ENTRY)[:-30]) == "Uploaded file must be a valid .zip archive"


def test_parts_of_an_archive(tenant):
    files = {"top/one/SKILL.md": skill("one"), "top/two/SKILL.md": skill("two"), "top/other/x": "x"}
    content = packed(files)

    def install(**data):
        return tenant.ok("box_install_skill_zip", file_key=tenant.upload(content), filename="A b.zip", **data)["skills"]

    found = tenant.ok("box_preview_skill_zip", file_key=tenant.upload(content), filename="A b.zip")["skills"]
    assert [(one["name"], one["source_path"]) for one in found] == [("one", "one"), ("two", "two")]
    message = tenant.error("box_install_skill_zip", file_key=tenant.upload(content), filename="A b.zip")
    assert message == "BoxValidationError: Multiple skills found. Please choose one or more source_paths: one, two"
    message = tenant.error("box_install_skill_zip", file_key=tenant.upload(content), source_paths=["three"])
    assert message == 'BoxValidationError: Invalid source_path "three". Available: one, two'
    assert os.path.basename(install(source_paths=["two"])[0]["package_root"]) == "A-b-two-upload"
    assert os.path.basename(install(source_subdir="one", target_suffix="")[0]["package_root"]) == "A-b"
    message = tenant.error("box_preview_skill_zip", file_key=tenant.upload(content), source_subdir="../x")
    assert message == "BoxValidationError: source_subdir must stay within the uploaded archive"
    message = tenant.error("box_preview_skill_zip", file_key=tenant.upload(content), source_subdir="absent")
    assert message == "BoxValidationError: source_subdir does not exist in the uploaded archive: absent"
    for name in ("one", "two"):
        tenant.ok("box_delete_skill", name=name)


def test_executable_files_stay_executable(tenant):
    script = zipfile.ZipInfo("run.sh")
    script.external_attr = (stat.S_IFREG | 0o710) << 16
    content = packed({**ENTRY, script: "true\n", "plain": "x"})
    root = tenant.ok("box_install_skill_zip", file_key=tenant.upload(content))["skills"][0]["package_root"]
    modes = {name: stat.S_IMODE(os.stat(f"{root}/{name}").st_mode) for name in ("run.sh", "plain")}
    assert modes == {"run.sh": 0o755, "plain": 0o644}
    tenant.ok("box_delete_skill", name="packed")


def test_links_lead_nowhere(tenant):
    root = tenant.ok("box_create_skill", skill={"name": "links", "instructions": "x"})["skill"]["package_root"]
    os.symlink("/etc", f"{root}/outside")
    os.symlink("/etc/passwd", f"{root}/file")
    stay = "BoxValidationError: path must stay within the skill package root"
    for path in ("outside/passwd", "file", "outside/new"):
        assert tenant.error("box_read_skill_file", name="links", path=path) == stay
        assert tenant.error("box_write_skill_file", name="links", path=path, content="x") == stay
    assert tenant.error("box_list_skill_files", name="links", path="outside") == stay
    tenant.ok("box_delete_skill", name="links")
    assert os.path.exists("/etc/passwd")


def test_texts_have_a_limit_and_are_text(tenant):
    root = tenant.ok("box_create_skill", skill={"name": "texts", "instructions": "x"})["skill"]["package_root"]
    with open(f"{root}/binary", "wb") as file:
        file.write(b"\xff\xfe")
    with open(f"{root}/long", "wb") as file:
        file.write(b"x" * ((1 << 20) + 1))
    message = tenant.error("box_read_skill_file", name="texts", path="binary")
    assert message == "BoxValidationError: Skill file binary is not valid UTF-8 text"
    message = tenant.error("box_read_skill_file", name="texts", path="long")
    assert message == "BoxValidationError: Skill file long exceeds the 1048576-byte limit"
    message = tenant.error("box_write_skill_file", name="texts", path="new", content="é" * 600_000)
    assert message == "BoxValidationError: Skill file new exceeds the 1048576-byte limit"
    tenant.ok("box_delete_skill", name="texts")


def test_lists_of_files_are_cut(tenant):
    root = tenant.ok("box_create_skill", skill={"name": "lists", "instructions": "x"})["skill"]["package_root"]
    for name in ("b", "a", ".hidden"):
        os.mkdir(f"{root}/{name}")
    listed = tenant.ok("box_list_skill_files", name="lists", max_entries="2")
    assert [entry["name"] for entry in listed["entries"]] == ["SKILL.md", "a"] and listed["truncated"] is True
    listed = tenant.ok("box_list_skill_files", name="lists", max_entries=3)
    assert listed["truncated"] is False
    assert listed["entries"][1] == {"path": "a", "name": "a", "is_dir": True, "size": None}
    listed = tenant.ok("box_list_skill_files", name="lists", include_hidden=True)
    assert [entry["name"] for entry in listed["entries"]] == [".hidden", "SKILL.md", "a", "b"]
    tenant.ok("box_delete_skill", name="lists")


def test_a_skill_is_written_with_its_front_matter(tenant):
    given = {"name": "made", "display_name": "Größe", "description": "one: two", "instructions": "Do\nit."}
    root = tenant.ok("box_create_skill", skill=given)["skill"]["package_root"]
    with open(f"{root}/SKILL.md") as file:
        written = file.read()
    assert written.startswith("---\nname: made\ndisplay_name: Größe\ndescription: ")
    assert written.endswith("\n---\n\nDo\nit.") or written.endswith("\n---\n\nDo\nit.\n")
    tenant.ok("box_update_skill", name="made", skill={"description": ""})
    assert tenant.ok("box_get_skill", name="made")["skill"]["instructions"].strip() == "Do\nit."
    tenant.ok("box_delete_skill", name="made")


def test_packages_in_one_place(tenant, daemon):
    first = tenant.ok("box_create_skill", skill={"name": "first", "instructions": "x"})["skill"]["package_root"]
    root = os.path.dirname(first)
    message = tenant.error("box_scan_skill_directory", path=f"{root}/absent")
    assert message == f"BoxValidationError: Directory does not exist: {root}/absent"
    os.makedirs(f"{root}/empty")
    message = tenant.error("box_scan_skill_directory", path=f"{root}/empty")
    assert message == f"BoxValidationError: No SKILL.md found in {root}/empty or its subdirectories (max depth: 2)"
    for name in ("a", "b"):
        os.makedirs(f"{root}/group/{name}")
        with open(f"{root}/group/{name}/SKILL.md", "w") as file:
            file.write(skill(name))
    message = tenant.error("box_scan_skill_directory", path=f"{root}/group")
    start = f"Multiple skill directories found in {root}/group. Please choose a more specific path: "
    assert message == f"BoxValidationError: {start}{root}/group/a, {root}/group/b"
    for name in ("a", "b", "first"):
        tenant.ok("box_delete_skill", name=name)
