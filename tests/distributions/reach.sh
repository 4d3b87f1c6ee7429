# What a new tree of Debian needs to reach the mirrors and package registries that this machine reaches; read by the scripts beside it, which set MIRROR.

NETWORK_VARIABLES='PIP_INDEX_URL|PIP_EXTRA_INDEX_URL|PIP_TRUSTED_HOST|PIP_CERT|PIP_DEFAULT_TIMEOUT|https?_proxy|no_proxy'

fail() {
    echo "$0: $1" >&2
    exit 1
}

# Settings of apt and pip, name servers, and whose certificates are trusted, into a TREE of SUITE.
reach_what_this_machine_reaches() {
    local tree=$1 suite=$2 bundle
    echo "deb $MIRROR $suite main" >"$tree/etc/apt/sources.list"
    if [[ $suite != sid ]]; then # where its kernel source 6.12 is, if it is an older suite
        echo "deb $MIRROR-security $suite-security main" >>"$tree/etc/apt/sources.list"
    fi
    cp /etc/apt/apt.conf.d/* "$tree/etc/apt/apt.conf.d/"
    cp /etc/resolv.conf /etc/hosts "$tree/etc/"
    if [[ -f /etc/pip.conf ]]; then
        cp /etc/pip.conf "$tree/etc/"
    fi
    for bundle in etc/ssl/certs/ca-certificates.crt usr/local/share/ca-certificates/machine.crt; do
        mkdir -p "$tree/$(dirname $bundle)"
        cp /etc/ssl/certs/ca-certificates.crt "$tree/$bundle"
    done
    (export -p | grep -iE "^declare -x ($NETWORK_VARIABLES)=" || true) >"$tree/etc/profile.d/machine.sh"
}
