#!/bin/bash
# First process of the virtual-time kernel. The root file system is the host's (hostfs), with the caller's rights, so code
# and results are simply there; only what must be private to this kernel is mounted over it.
#
# From the kernel's command line: GRADWIRE_BOX, a folder in the job's with the file `job`; GRADWIRE_TOKEN, the line that says
# that the job has ended; GRADWIRE_OPENVSWITCH, 1 to start Open vSwitch. The job's exit status goes to GRADWIRE_BOX/status.
# /dev/console is for this script and the kernel, /dev/tty1 carries the job's output and nothing else.
#
# Runs must repeat to the nanosecond, wherever they are kept. A longer name in memory, be it the kernel's or a process's, moves what comes
# after it to other addresses, and tables that go by addresses are then gone through in another order. So the job's folder has one name.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export -n GRADWIRE_BOX GRADWIRE_TOKEN GRADWIRE_OPENVSWITCH uml_dir mem

fail() { # Without its first process the kernel stops; the caller finds no status and shows these last lines.
    echo "gradwire: $1"
    exit 1
}

mount -t proc proc /proc || fail "cannot mount /proc"
mount -t sysfs sysfs /sys || fail "cannot mount /sys"
mount -t tmpfs tmpfs /run || fail "cannot mount /run"
mkdir -p /dev/pts /dev/shm /run/openvswitch /run/tmp /run/job || fail "cannot make folders in /dev and /run"
mount -t devpts -o ptmxmode=666 devpts /dev/pts || fail "cannot mount /dev/pts"
mount -t tmpfs tmpfs /dev/shm || fail "cannot mount /dev/shm"
# To the host this is the folder in which the kernel was started. mount(8) before 2.39 hands the path over bare, later ones want its name.
mount -t hostfs -o /proc/self/cwd/. job /run/job 2>/dev/null ||
    mount -t hostfs -o hostfs=/proc/self/cwd/. job /run/job || fail "cannot mount the job's folder"
# Pages that are freed go back to their neighbours at once, so that what a process gets next is one stretch: see agents/op_state.py. Without it
# an agent had 490 MB at the machine's limit of mappings, with it 1,140.
echo 1000000 >/proc/sys/vm/percpu_pagelist_high_fraction || fail "cannot set vm.percpu_pagelist_high_fraction"
ip link set lo up || fail "cannot raise the loopback interface"
# Emulated hosts have no name server. One of this machine may have an address of their network (10.255.255.254 in WSL): then each lookup
# waits 6 s for an answer to ARP, as Python's http.server does before it listens. Without any, lookups fail at once.
if [ -f /etc/resolv.conf ] && [[ $(</etc/resolv.conf) = *nameserver* ]]; then
    mount --bind /dev/null /etc/resolv.conf || fail "cannot hide /etc/resolv.conf"
fi
# Hosts choose among all congestion controls that there are. Without this, dctcp, dcqcn and nscc are the first network namespace's alone.
read -r congestion_controls </proc/sys/net/ipv4/tcp_available_congestion_control &&
    echo "$congestion_controls" >/proc/sys/net/ipv4/tcp_allowed_congestion_control || fail "cannot allow TCP's congestion controls"
# A process that carries many hosts may raise its limit to a socket for each of their flows. Not the limit in force: there are programs
# that call close() for each number up to it when they start.
ulimit -Hn 65536
# A process may have seven eighths of the memory for its own data, and is refused more. Without that limit, programs that take everything
# leave no room for their code: the kernel drops pages of it and reads them again for ever, for it kills only where dropping does not help.
# The clock stands still meanwhile, so that nothing inside can notice. It is the soft limit, which a program may raise.
read -r _ total_kib _ </proc/meminfo || fail "cannot read /proc/meminfo"
ulimit -Sd $((total_kib / 8 * 7)) || fail "cannot limit the data of processes"

if [ "$GRADWIRE_OPENVSWITCH" = 1 ]; then
    # Open vSwitch counts the CPUs only after 10 s of uptime, and has no handler threads before. Sleeping is free here.
    sleep 30
    cd /run/openvswitch || fail "cannot enter /run/openvswitch"
    # ovsdb-server makes a temporary file in /tmp, with the same name in every kernel: two that boot side by side would find that of the other,
    # and take another name a microsecond later.
    mount -t tmpfs tmpfs /tmp || fail "cannot mount /tmp"
    export OVS_DBDIR=/run/openvswitch OVS_LOGDIR=/run/openvswitch OVS_RUNDIR=/run/openvswitch
    # max-idle: see OVS_MAX_IDLE_MS in vm/host.py.
    # Without ovs-ctl: its checks for upgrades, modules and other daemons take longer than both daemons need to start.
    ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema &&
        ovsdb-server --remote=punix:/run/openvswitch/db.sock --verbose=console:off --detach --pidfile --log-file conf.db &&
        ovs-vsctl --timeout=30 --no-wait init -- set Open_vSwitch . other_config:max-idle=3600000 &&
        ovs-vswitchd --verbose=console:off --detach --pidfile --log-file ||
        fail "Open vSwitch does not start: $(tail -n 5 /run/openvswitch/*.log)"
    umount -l /tmp || fail "cannot unmount /tmp"
fi

cd /run/job || fail "cannot enter the job's folder"
mapfile -d '' -t job <"$GRADWIRE_BOX/job" || fail "cannot read $GRADWIRE_BOX/job"
env -i "${job[@]}" </dev/null >/dev/tty1 2>&1
echo $? >"$GRADWIRE_BOX/status"
sync
echo "$GRADWIRE_TOKEN" >/dev/tty1
# The caller now ends this kernel from outside: quicker than a shutdown, and nothing is left to lose.
exec sleep infinity
