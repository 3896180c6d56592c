"""Admission by a runtime that is ready for it. That of the SDK takes no other backend than nsjail for this."""

from host import NotTried
from langbot_plugin.box import errors, models

from capabilities import capability, check, needs, place, refusal
from capabilities.admission import grant, needs_admission
from capabilities.mounts import artifact


async def admit(host):
    needs_admission(host)
    if host.settings["init"]["backend"] != "nsjail":
        raise NotTried
    await host.call("upsert_sandbox_admission_grant", grant(1))


@capability("admission: what is granted runs", group="managed")
async def granted(host):
    await admit(host)
    shown = await host.output("global", "pwd; echo x > kept; cat kept", workdir="/workspace")
    check(shown == "/workspace\nx", "another answer")
    await host.call("delete_session", "global")
    check(await host.output("global", "cat kept", workdir="/workspace") == "x", "a file of the workspace is gone")
    await host.call("delete_session", "global")


@capability("admission: read-only mounts are admitted, others are not", group="managed")
async def mounts(host):
    await admit(host)
    needs(hasattr(models, "ARTIFACT_MOUNT_ROOT"))
    (place(host, "admitted") / "file").write_text("admitted")
    mount = {"host_path": str(place(host, "admitted")), "mount_path": "/workspace/admitted", "mode": "ro"}
    # A directory that no box may see is a fault of the request as well.
    refusals = errors.BoxAdmissionError, errors.BoxValidationError
    for other in ({"mode": "rw"}, {"mount_path": "/tmp/admitted"}, {"host_path": "/srv"}):
        async with refusal(refusals if "host_path" in other else refusals[0], f"another {[*other][0]} is admitted"):
            await host.exec("global", "true", workdir="/workspace", extra_mounts=[{**mount, **other}])
    skill = artifact(host, "admitted-skill")
    seen = f"cat admitted/file {skill['mount_path']}/SKILL.md"
    shown = await host.output("global", seen, workdir="/workspace", extra_mounts=[mount, skill])
    check(shown == "admittedadmitted-skill", "they are not shown")
    result = await host.exec("global", "echo x > admitted/file", workdir="/workspace", extra_mounts=[mount, skill])
    check(result.exit_code != 0, "the box can write to one")
    await host.call("delete_session", "global")
