# Holdfast with every extra, as a user without rights. docs/howto/install.md says how to build and run it.
#
# The packages are exactly those of requirements/image.txt, with their hashes; Holdfast itself is built from this folder.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/holdfast
COPY requirements/image.txt requirements/image.txt
RUN /opt/holdfast/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/holdfast/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/holdfast/bin/pip uninstall --yes setuptools pip

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 holdfast \
    && useradd --uid 10001 --gid holdfast --home-dir /data --no-create-home --shell /usr/sbin/nologin holdfast \
    && install --directory --mode=0700 --owner=holdfast --group=holdfast /data
COPY --from=build /opt/holdfast /opt/holdfast
ENV PATH="/opt/holdfast/bin:$PATH" \
    HOLDFAST_DATA=/data \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 7420
# SIGTERM, on which running turns are given back; `docker stop --time 30` leaves room for that.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["holdfast", "health"]
ENTRYPOINT ["holdfast"]
# The address is that of the container. It needs HOLDFAST_TOKEN, and the host names under which clients reach it.
CMD ["up", "--host", "0.0.0.0", "--public-host", "localhost", "--json"]
