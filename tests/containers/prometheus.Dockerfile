# Stands in for Prometheus' own image where no registry can be reached: Debian's package, with that image's user and folder.
ARG BASE
FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends busybox prometheus \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s busybox /bin/wget \
    && install -d -o nobody -g nogroup /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
