# One image for all processes of a deployment. Built in two stages, so that no compiler and no cache is in what runs.
#   TORCH        what pip installs as torch; a path or address of a wheel will do
#   TORCH_INDEX  index to take it from; set it to one with CPU builds where the default brings CUDA along
#   EXTRAS       extras of pyproject.toml; cpu or gpu, never both
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG TORCH="torch==2.13.0"
ARG TORCH_INDEX=""
ARG EXTRAS="cpu,postgres,s3"
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/mmlake/venv/bin:$PATH
RUN python -m venv /opt/mmlake/venv && pip install --quiet "pip>=24" "setuptools>=77" wheel
# torch comes first and alone: whichever build is chosen satisfies the pin, and nothing later replaces it.
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$TORCH"
WORKDIR /src
# The dependencies next, without our code: a change of code does not install them again.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN pip install --constraint constraints.txt ".[${EXTRAS}]"
COPY mmlake mmlake
COPY mmlake_resources mmlake_resources
COPY mmlake_assets mmlake_assets
RUN pip install --no-deps --force-reinstall . && mmlake compile --json

FROM python:${PYTHON}-slim
ARG UID=1000
RUN useradd --uid "$UID" --create-home mmlake && install --directory --owner=mmlake --group=mmlake /lake /landing
COPY --from=build /opt/mmlake/venv /opt/mmlake/venv
COPY deploy/dagster.yaml deploy/workspace.yaml /opt/mmlake/deploy/
ENV PATH=/opt/mmlake/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DAGSTER_HOME=/lake/dagster MMLAKE_LAKE=/lake MMLAKE_LANDING=/landing \
    DO_NOT_TRACK=1 DAGSTER_DISABLE_TELEMETRY=yes RAY_USAGE_STATS_ENABLED=0 \
    WDS_SECURE=1
USER mmlake
WORKDIR /lake
CMD ["mmlake", "--help"]
