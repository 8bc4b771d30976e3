"""Dagster's web server behind the door: for `mmlake ui`, and as a program of its own for a deployment
(`python -m mmlake_assets.door_server --workspace FILE`), which takes the place of `dagster-webserver`."""

from http import HTTPStatus
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

import dagster as dg
import typer
import uvicorn
from dagster._core.workspace.context import IWorkspaceProcessContext, WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.version import __version__
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mmlake.cli.app import main
from mmlake.errors import SettingsError
from mmlake_assets.door import LOOPBACK, MIN_TOKEN, Door, is_token

_POLL_MS = 2000  # the pages ask for news this often, as with Dagster's own
_GRACE_S = 3  # for answers that are under way when the server is to end; web sockets are closed at once
_STATEMENT_MS, _RECYCLE_S, _OVERFLOW = 15_000, 3_600, 20  # Dagster's own defaults of a web server's database


class GuardedWebserver(DagsterWebserver[Any, Any]):
    """The web server of Dagster, whose every request goes through the door first."""

    def __init__(self, context: IWorkspaceProcessContext, *, names: tuple[str, ...], token: str, prefix: str) -> None:
        self._names, self._token = names, token
        super().__init__(context, prefix, _POLL_MS)

    def build_middleware(self) -> list[Middleware]:
        """The door, then Dagster's own."""
        guard = Middleware(Door, names=self._names, token=self._token, prefix=self._app_path_prefix)
        return [guard, *super().build_middleware()]

    async def graphql_http_endpoint(self, request: Request) -> Response:
        """Dagster's answer to a POST that is one question; it executes what comes by GET, and has no answer to a list.
        The door refuses other methods before; this holds whatever path led here."""
        if request.method != "POST":
            return PlainTextResponse("GraphQL comes by POST\n", HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            asked = await request.json()  # kept by the request, which is read again below
        except ValueError:
            return PlainTextResponse("the body is not JSON\n", HTTPStatus.BAD_REQUEST)
        except RecursionError:
            return PlainTextResponse("the body is nested too deeply\n", HTTPStatus.BAD_REQUEST)
        if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
            return PlainTextResponse("the body is not an object with a query\n", HTTPStatus.BAD_REQUEST)
        if not isinstance(asked.get("variables"), (dict, str, NoneType)):
            return PlainTextResponse("the variables are not an object\n", HTTPStatus.BAD_REQUEST)
        return await super().graphql_http_endpoint(request)

    async def download_captured_logs_endpoint(self, request: Request) -> Response:
        """The log of a step; a path that leads out of the logs has none."""
        try:
            return await super().download_captured_logs_endpoint(request)
        except ValueError:
            return PlainTextResponse("there is no such log\n", HTTPStatus.NOT_FOUND)

    async def download_debug_file_endpoint(self, request: Request) -> Response:
        """What a run did, as an archive."""
        if not self._process_context.instance.has_run(request.path_params["run_id"]):
            return PlainTextResponse("there is no such run\n", HTTPStatus.NOT_FOUND)
        return await super().download_debug_file_endpoint(request)


def server_of(
    context: IWorkspaceProcessContext,
    *,
    port: int,
    host: str = "127.0.0.1",
    names: tuple[str, ...] = (),
    token: str = "",
    prefix: str = "",
) -> uvicorn.Server:
    """A web server that is not started yet. names: host names that it answers to besides those of this machine.
    Raises SettingsError as `refuse_open`."""
    refuse_open(host, token)
    web = GuardedWebserver(context, names=(*LOOPBACK, *(name.lower() for name in names)), token=token, prefix=prefix)
    return uvicorn.Server(
        uvicorn.Config(
            web.create_asgi_app(),
            host=host,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
        )
    )


def refuse_open(host: str, token: str) -> None:
    """Raises SettingsError for a token that can be guessed, and for an address that others reach without one."""
    if token and not is_token(token):
        raise SettingsError(
            f"the token of the web server is too short or has other signs; expected at least {MIN_TOKEN} letters, "
            "digits, - or _, such as `openssl rand -hex 24` makes"
        )
    if not token and f"[{host}]" not in LOOPBACK and host not in LOOPBACK:
        raise SettingsError(
            f"the web server would answer everybody who reaches {host}; set MMLAKE_UI_TOKEN (`openssl rand -hex 24` "
            "makes one), or leave --host at 127.0.0.1"
        )


def workspace_context(instance: dg.DagsterInstance, workspace: Path, *, read_only: bool) -> WorkspaceProcessContext:
    """What the web server knows of the code servers that the file names; a context manager."""
    instance.optimize_for_webserver(_STATEMENT_MS, _RECYCLE_S, _OVERFLOW)
    return WorkspaceProcessContext(
        instance,
        version=__version__,
        read_only=read_only,
        workspace_load_target=WorkspaceFileTarget([str(workspace)]),
    )


def serve(
    workspace: Annotated[Path, typer.Option(help="workspace.yaml that names the code servers.")],
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 3000,
    path_prefix: Annotated[str, typer.Option(help="Of all paths, such as /dagster.")] = "",
    names: Annotated[
        str, typer.Option(envvar="MMLAKE_UI_NAMES", help="Host names that it answers to, with blanks between several.")
    ] = "",
    token: Annotated[
        str, typer.Option(envvar="MMLAKE_UI_TOKEN", help="What every request must bring.", show_default=False)
    ] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse to launch, to cancel and to report.")] = False,
) -> None:
    """Serve the UI of the instance in DAGSTER_HOME to whoever may have it."""
    refuse_open(host, token)
    with (
        dg.DagsterInstance.get() as instance,
        workspace_context(instance, workspace, read_only=read_only) as context,
    ):
        server_of(
            context, host=host, port=port, names=tuple(names.split()), token=token, prefix=path_prefix.rstrip("/")
        ).run()


if __name__ == "__main__":
    application = typer.Typer(pretty_exceptions_enable=False)
    application.command()(serve)
    main(application)
