// Every host sends as many bytes to every other over TCP, all at once, through one router with a queue a port that never overflows: what
// gradwire's all-to-all does, in ns-3. Prints the time of the last byte in simulated seconds.
//
//   ns3_all_to_all HOSTS BYTES_PER_FLOW RATE_BPS

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

const uint16_t PORT = 5000;
const uint32_t SEGMENT_BYTES = 1448;  // of MTU 1500 with timestamps, as Linux sends

uint64_t g_left_bytes;
Time g_end;

void Received(Ptr<const Packet> packet, const Address&) {
    g_left_bytes -= packet->GetSize();
    if (g_left_bytes == 0) {
        g_end = Simulator::Now();
        Simulator::Stop();
    }
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc != 4) {
        std::cerr << "usage: ns3_all_to_all HOSTS BYTES_PER_FLOW RATE_BPS\n";
        return 2;
    }
    const uint32_t hosts = std::strtoul(argv[1], nullptr, 10);
    const uint64_t flow_bytes = std::strtoull(argv[2], nullptr, 10);
    const std::string rate = std::string(argv[3]) + "bps";

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));

    NodeContainer nodes;
    nodes.Create(hosts);
    Ptr<Node> router = CreateObject<Node>();
    InternetStackHelper stack;
    stack.Install(nodes);
    stack.Install(router);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetDeviceAttribute("Mtu", UintegerValue(1500));
    link.SetChannelAttribute("Delay", StringValue("1us"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));
    Ipv4AddressHelper addresses("10.1.0.0", "255.255.255.0");
    std::vector<Ipv4Address> at;
    for (uint32_t host = 0; host < hosts; ++host) {
        NetDeviceContainer ends = link.Install(nodes.Get(host), router);
        auto interfaces = addresses.Assign(ends);
        // Assign() puts FqCoDel in front of each device, which drops what waits for too long.
        TrafficControlHelper().Uninstall(ends);
        at.push_back(interfaces.GetAddress(0));
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    g_left_bytes = flow_bytes * hosts * (hosts - 1);
    for (uint32_t host = 0; host < hosts; ++host) {
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
        auto sinks = sink.Install(nodes.Get(host));
        sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Received));
        for (uint32_t other = 0; other < hosts; ++other) {
            if (other == host) {
                continue;
            }
            BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(at[other], PORT));
            source.SetAttribute("MaxBytes", UintegerValue(flow_bytes));
            source.SetAttribute("SendSize", UintegerValue(65536));
            source.Install(nodes.Get(host));
        }
    }
    Simulator::Run();
    std::cout << std::setprecision(9) << g_end.GetSeconds() << "\n";
    Simulator::Destroy();
    return g_left_bytes == 0 ? 0 : 1;
}
