"""Admission, with a runtime of its own: it cannot be switched off again."""

import datetime

from host import INSTANCE, WORKSPACE, note
from langbot_plugin.box import errors

from capabilities import capability, check, needs, refusal


def needs_admission(host):
    needs(host.offers("upsert_sandbox_admission_grant"))


def grant(revision, seconds=200, **fields):
    from langbot_plugin.box.models import SandboxAdmissionGrant

    now = datetime.datetime.now(datetime.timezone.utc)
    values = {"execution_generation": 1, "max_sessions": 1, "max_managed_processes": 0, **fields}
    return note(
        SandboxAdmissionGrant(
            instance_uuid=INSTANCE,
            workspace_uuid=WORKSPACE,
            entitlement_revision=revision,
            expires_at=now + datetime.timedelta(seconds=seconds),
            **values,
        )
    )


@capability("admission: grants and revocations", group="admission")
async def admission(host):
    needs_admission(host)
    from langbot_plugin.box.models import SandboxAdmissionRevocation

    wanted = grant(5)
    answer = await host.call("upsert_sandbox_admission_grant", wanted)
    check(answer["installed"] is True, "not installed")
    expires = datetime.datetime.fromisoformat(answer.pop("expires_at"))
    check(expires == wanted.expires_at, "another end")
    check((answer["entitlement_revision"], answer["max_sessions"]) == (5, 1), "other numbers")
    async with refusal(errors.BoxAdmissionError, "an older revision is not refused"):
        await host.call("upsert_sandbox_admission_grant", grant(4))
    async with refusal(errors.BoxAdmissionError, "a lifetime above the maximum is not refused"):
        await host.call("upsert_sandbox_admission_grant", grant(6, seconds=4000))
    revocation = SandboxAdmissionRevocation(instance_uuid=INSTANCE, workspace_uuid=WORKSPACE, entitlement_revision=5)
    answer = await host.call("revoke_sandbox_admission_grant", note(revocation))
    check(answer["revoked"] is True and answer["entitlement_revision"] == 5, "not revoked")
    async with refusal(errors.BoxAdmissionError, "a revoked revision is installed again"):
        await host.call("upsert_sandbox_admission_grant", grant(5))


@capability("admission: nothing runs where isolation is not ready", group="admission")
async def readiness(host):
    needs_admission(host)
    await host.call("upsert_sandbox_admission_grant", grant(7))
    async with refusal(errors.BoxReadinessError, "it runs"):
        await host.exec("global", "true", workdir="/workspace")
    shown = await host.call("get_backend_info")
    check(shown["available"] is False and shown["readiness"]["ready"] is False, "it claims to be ready")
