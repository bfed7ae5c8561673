# The programs of hub and members in one image. Nothing in it runs as root, and nothing writes to it.
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/volcano-federation
COPY requirements-run.lock ./
RUN /opt/volcano-federation/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements-run.lock
COPY . .
RUN /opt/volcano-federation/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
COPY --from=build /opt/volcano-federation /opt/volcano-federation
ENV PATH=/opt/volcano-federation/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT []
CMD ["federation-hub", "run"]
