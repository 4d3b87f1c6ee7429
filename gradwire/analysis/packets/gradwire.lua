-- Wireshark dissector of gradwire's traffic: messages in TCP streams, and multicast datagrams.
--
--   wireshark -X lua_script:gradwire.lua h1-eth0.pcapng
--
-- A run writes a copy of this file beside its captures, preceded by the names of its plan (analysis/packets/captures.py); without
-- them tensors are numbers. The formats are those of datatypes/wire/framing.py and network/wire/datagrams.py.
--
-- Messages do not begin where packets do, so their headers are followed from one to the next by sequence numbers
-- (network/wire/trail.py does the same). A header that the capture cut off is taken from the packet's comment, where gradwire notes it.
-- On a fabric with losses add `-o tcp.no_subdissector_on_error:FALSE`; otherwise segments that came twice or late are not dissected.

local names = gradwire_names or { tensors = {}, chunks = {}, ranks = {}, messages = {} }

local MESSAGE_PORT, REPORT_PORT = 7000, 7001
local FLOW_PORTS = "20000-24095"
local MAGIC = "GWIR"
local FIXED_BYTES, HELLO_BYTES, DATA_BYTES, RANGE_BYTES = 48, 8, 16, 16
local FIRST, PROBE, HELLO = 1, 2, 4
local SEQUENCE_NUMBERS = 4294967296
local COMBINES = { [0] = "unknown", [1] = "control", [2] = "copy", [3] = "add" }

local gradwire = Proto("gradwire", "gradwire")
local field = {
  connection = ProtoField.uint32("gradwire.connection", "Connection"),
  iteration = ProtoField.uint32("gradwire.iteration", "Iteration"),
  message = ProtoField.uint64("gradwire.message", "Message (the SEND's op in the plan)"),
  src_rank = ProtoField.int32("gradwire.src_rank", "From rank"),
  dst_rank = ProtoField.int32("gradwire.dst_rank", "To rank (or group)"),
  src = ProtoField.string("gradwire.src", "From"),
  dst = ProtoField.string("gradwire.dst", "To"),
  tensor = ProtoField.int32("gradwire.tensor", "Tensor"),
  tensor_name = ProtoField.string("gradwire.tensor_name", "Tensor's name"),
  chunk = ProtoField.int32("gradwire.chunk", "Chunk"),
  slice = ProtoField.uint32("gradwire.slice", "Slice"),
  slices = ProtoField.uint32("gradwire.slices", "Slices of the tensor"),
  payload_bytes = ProtoField.uint64("gradwire.payload_bytes", "Payload bytes"),
  contributed_to = ProtoField.int32("gradwire.contributed_to", "Iteration of the contributions"),
  contributions = ProtoField.bytes("gradwire.contributions", "Contributions (bit w of the lowest byte first: worker w)"),
  workers = ProtoField.uint32("gradwire.workers", "Workers that contributed"),
  combine = ProtoField.uint8("gradwire.combine", "What the receiver does with it", base.DEC, COMBINES),
  traffic_class = ProtoField.int8("gradwire.class", "Traffic class (0 is the most urgent, -1 control)"),
  order = ProtoField.int64("gradwire.order", "Order in its send queue"),
  sequence = ProtoField.uint32("gradwire.sequence", "Sequence number of its first byte"),
  flow = ProtoField.uint32("gradwire.flow", "Multicast flow"),
  left = ProtoField.uint16("gradwire.left", "Datagrams left in the burst, this one included"),
  flags = ProtoField.uint16("gradwire.flags", "Flags", base.HEX),
  first = ProtoField.bool("gradwire.flags.first", "Begins a message", 16, nil, FIRST),
  probe = ProtoField.bool("gradwire.flags.probe", "Asks members for their status", 16, nil, PROBE),
  hello = ProtoField.bool("gradwire.flags.hello", "Holds nothing", 16, nil, HELLO),
  datagram = ProtoField.uint64("gradwire.datagram", "Number of the datagram in its flow"),
  member = ProtoField.uint16("gradwire.member", "Member (endpoint index)"),
  cumulative = ProtoField.uint64("gradwire.cumulative", "All before this datagram have arrived"),
  missing = ProtoField.string("gradwire.missing", "Missing"),
}
gradwire.fields = field
local lost_header = ProtoExpert.new("gradwire.lost", "The next header was not captured", expert.group.SEQUENCE, expert.severity.WARN)
gradwire.experts = { lost_header }

local sequence_of = Field.new("tcp.seq_raw")
local length_of = Field.new("tcp.len")
local stream_of = Field.new("tcp.stream")
local comments_of = Field.new("frame.comment")
local dscp_of = Field.new("ip.dsfield.dscp")

-- Returns bytes as text, so that parts of a header can be joined.

local function bytes_of(tvb, offset, length)
  length = math.min(length, tvb:len() - offset)
  return length > 0 and tvb:raw(offset, length) or ""
end

local function number_at(text, offset, length)
  local value = 0
  for at = offset + 1, offset + length do value = value * 256 + text:byte(at) end
  return value
end

local function header_bytes(start)
  return #start < 8 and FIXED_BYTES or FIXED_BYTES + number_at(start, 6, 2)
end

local function is_header(text) return text:sub(1, 4) == MAGIC and text:byte(5) == 1 end

local function distance(from, to)
  return (to - from + SEQUENCE_NUMBERS / 2) % SEQUENCE_NUMBERS - SEQUENCE_NUMBERS / 2
end

-- The trail of one stream: where its next header begins, and the part of it that has arrived.

local trails, found_in = {}, {}

function gradwire.init() trails, found_in = {}, {} end

local function step_to(trail, sequence, awaits_hello)
  trail.next, trail.awaits_hello, trail.part, trail.is_torn = sequence, awaits_hello, "", false
end

local function lose(trail, found)
  step_to(trail, nil, false)
  found.is_lost = true
end

local function collect(trail, packet, offset, found)
  local start = trail.part .. packet.data:sub(offset + 1, offset + 8)
  if #start >= 8 and not is_header(start) then
    lose(trail, found)
    return nil
  end
  local size = header_bytes(start)
  local here = trail.part .. packet.data:sub(offset + 1, offset + size - #trail.part)
  if #here == size then return here end
  trail.is_torn = #packet.data < packet.length
  trail.part = trail.is_torn and "" or here
  return nil
end

-- Reads all headers of a packet; false if a header must be in an earlier packet that has not come yet.
local function read(trail, packet, found)
  while trail.next do
    local noted = trail.notes[trail.next]
    local offset = distance(packet.sequence, trail.next + #trail.part)
    if offset < 0 and not noted then
      if trail.is_noted or not trail.is_torn then return false end
      lose(trail, found)
      if is_header(packet.data) then step_to(trail, packet.sequence, false) end
    elseif offset >= packet.length then
      return true
    elseif trail.awaits_hello then
      step_to(trail, (trail.next + HELLO_BYTES) % SEQUENCE_NUMBERS, false)
    else
      local header = noted or collect(trail, packet, offset, found)
      if not header then return true end
      trail.notes[trail.next] = nil
      local is_here = not noted and trail.part == "" and packet.is_now
      found[#found + 1] = { sequence = trail.next, header = header, offset = is_here and offset or nil }
      step_to(trail, (trail.next + #header + number_at(header, 40, 8)) % SEQUENCE_NUMBERS, false)
    end
  end
  return true
end

local function follow(trail, packet, found)
  if not trail.next then
    local is_hello = packet.length == HELLO_BYTES and packet.data:sub(1, 4) == MAGIC
    if not (is_hello or is_header(packet.data)) then return end
    step_to(trail, packet.sequence, is_hello)
  end
  if not read(trail, packet, found) then
    packet.is_now = false
    trail.early[#trail.early + 1] = packet
    return
  end
  local in_turn = true
  while in_turn and #trail.early > 0 do
    local left = {}
    for _, early in ipairs(trail.early) do
      if not read(trail, early, found) then left[#left + 1] = early end
    end
    in_turn, trail.early = #left < #trail.early, left
  end
end

local function notes_of_packet()
  local notes = {}
  for _, comment in ipairs({ comments_of() }) do
    local sequence, hex = tostring(comment.value):match("^gradwire message at sequence number (%d+): (%x+)$")
    if sequence then
      notes[tonumber(sequence)] = hex:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
    end
  end
  return notes
end

-- Display.

local function name_of_rank(rank) return names.ranks[rank] or ("rank " .. rank) end

local function describe(tree, message, tvb, pinfo, is_group)
  local at, header = message.offset, message.header
  local source = tvb
  if not at then
    source, at = ByteArray.new((header:gsub(".", function(c) return string.format("%02x", c:byte()) end))):tvb("Message header"), 0
  end
  local function part(offset, length) return source:range(at + offset, length) end
  local op = part(16, 8):uint64():tonumber()
  local iteration, src, dst = part(8, 4):uint(), part(24, 4):int(), part(28, 4):int()
  local tensor, chunk, size = part(32, 4):int(), part(36, 4):int(), part(40, 8):uint64()
  local cut, planned = names.chunks[chunk], names.messages[op]
  local name = chunk < 0 and "control" or names.tensors[tensor] or ("tensor " .. tensor)
  local what = cut and cut[2] > 1 and string.format("%s, slice %d of %d", name, cut[1], cut[2]) or name
  local to = is_group and ("group " .. dst) or name_of_rank(dst)
  local line = string.format("iteration %d: %s, %s to %s, %s bytes", iteration, what, name_of_rank(src), to, tostring(size))

  local branch = tree:add(gradwire, part(0, #header), "gradwire message, " .. line)
  branch:add(field.iteration, part(8, 4))
  branch:add(field.message, part(16, 8))
  branch:add(field.src_rank, part(24, 4))
  branch:add(field.dst_rank, part(28, 4))
  branch:add(field.src, part(24, 4), name_of_rank(src)):set_generated()
  branch:add(field.dst, part(28, 4), to):set_generated()
  branch:add(field.tensor, part(32, 4))
  if chunk >= 0 and names.tensors[tensor] then branch:add(field.tensor_name, part(32, 4), name):set_generated() end
  branch:add(field.chunk, part(36, 4))
  if cut then
    branch:add(field.slice, part(36, 4), cut[1]):set_generated()
    branch:add(field.slices, part(36, 4), cut[2]):set_generated()
  end
  branch:add(field.payload_bytes, part(40, 8))
  branch:add(field.contributed_to, part(12, 4))
  local mask, workers = header:sub(FIXED_BYTES + 1), 0
  for index = 1, #mask do
    local bits = mask:byte(index)
    while bits > 0 do workers, bits = workers + bits % 2, math.floor(bits / 2) end
  end
  if #mask > 0 then
    branch:add(field.contributions, part(FIXED_BYTES, #mask))
    branch:add(field.workers, part(FIXED_BYTES, #mask), workers):set_generated()
  end
  if planned then
    branch:add(field.combine, planned[1]):set_generated()
    branch:add(field.order, Int64.new(planned[2])):set_generated()
  end
  local dscp = dscp_of()
  if dscp then branch:add(field.traffic_class, math.floor((48 - dscp.value) / 3) - 1):set_generated() end
  if message.sequence then branch:add(field.sequence, message.sequence):set_generated() end
  pinfo.cols.info:append((pinfo.private.gradwire_shown and "; " or "") .. line)
  pinfo.private.gradwire_shown = "yes"
end

local function dissect_stream(tvb, pinfo, tree)
  local key = tostring(stream_of().value) .. (pinfo.dst_port == MESSAGE_PORT and ">" or "<")
  local found = found_in[pinfo.number]
  if not found then
    found = {}
    found_in[pinfo.number] = found
    local trail = trails[key]
    if not trail then
      trail = { early = {}, notes = {} }
      step_to(trail, nil, false)
      trails[key] = trail
    end
    for sequence, header in pairs(notes_of_packet()) do trail.notes[sequence], trail.is_noted = header, true end
    local packet = { sequence = sequence_of().value, length = length_of().value, is_now = true }
    packet.data = bytes_of(tvb, 0, tvb:len())
    follow(trail, packet, found)
  end
  pinfo.cols.protocol = "GRADWIRE"
  pinfo.cols.info = string.format("%d bytes of messages", length_of().value)
  if #found > 0 then pinfo.cols.info = "" end
  if length_of().value == HELLO_BYTES and bytes_of(tvb, 0, 4) == MAGIC then
    pinfo.cols.info = "hello of connection " .. tvb:range(4, 4):uint()
    tree:add(gradwire, tvb:range(0, HELLO_BYTES), "gradwire hello"):add(field.connection, tvb:range(4, 4))
  end
  for _, message in ipairs(found) do describe(tree, message, tvb, pinfo, false) end
  if found.is_lost then tree:add(gradwire, tvb(), "gradwire"):add_proto_expert_info(lost_header) end
  return tvb:len()
end

local function dissect_data(tvb, pinfo, tree)
  local branch = tree:add(gradwire, tvb:range(0, DATA_BYTES), "gradwire multicast data")
  branch:add(field.flow, tvb:range(0, 4))
  branch:add(field.left, tvb:range(4, 2))
  local flags = branch:add(field.flags, tvb:range(6, 2))
  for _, flag in ipairs({ field.first, field.probe, field.hello }) do flags:add(flag, tvb:range(6, 2)) end
  branch:add(field.datagram, tvb:range(8, 8))
  local bits = tvb:range(6, 2):uint()
  pinfo.cols.info = string.format("flow %d, datagram %s: ", tvb:range(0, 4):uint(), tostring(tvb:range(8, 8):uint64()))
  if bits % 2 == FIRST then
    local header = bytes_of(tvb, DATA_BYTES, header_bytes(bytes_of(tvb, DATA_BYTES, 8)))
    if is_header(header) and #header == header_bytes(header) then
      describe(tree, { header = header, offset = DATA_BYTES }, tvb, pinfo, true)
    end
  else
    pinfo.cols.info:append(math.floor(bits / HELLO) % 2 == 1 and "hello" or "more of its message")
  end
end

local function dissect_status(tvb, pinfo, tree)
  local branch = tree:add(gradwire, tvb(), "gradwire multicast status")
  branch:add(field.flow, tvb:range(0, 4))
  branch:add(field.member, tvb:range(4, 2))
  branch:add(field.cumulative, tvb:range(8, 8))
  for index = 0, tvb:range(6, 2):uint() - 1 do
    local at = DATA_BYTES + index * RANGE_BYTES
    if at + RANGE_BYTES > tvb:len() then break end
    local first, after = tvb:range(at, 8):uint64(), tvb:range(at + 8, 8):uint64()
    branch:add(field.missing, tvb:range(at, RANGE_BYTES), string.format("%s up to %s", tostring(first), tostring(after - 1)))
  end
  pinfo.cols.info = string.format("status of flow %d: all before datagram %s", tvb:range(0, 4):uint(), tostring(tvb:range(8, 8):uint64()))
end

function gradwire.dissector(tvb, pinfo, tree)
  if pinfo.port_type == 2 then return dissect_stream(tvb, pinfo, tree) end
  if tvb:len() < DATA_BYTES then return 0 end
  pinfo.cols.protocol = "GRADWIRE"
  if pinfo.src_port == REPORT_PORT then dissect_status(tvb, pinfo, tree) else dissect_data(tvb, pinfo, tree) end
  return tvb:len()
end

DissectorTable.get("tcp.port"):add(MESSAGE_PORT, gradwire)
DissectorTable.get("udp.port"):add(REPORT_PORT, gradwire)
DissectorTable.get("udp.port"):add(FLOW_PORTS, gradwire)
