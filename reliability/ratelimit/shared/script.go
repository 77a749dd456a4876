package shared

import "github.com/sloengine/sloengine/reliability/redisconn"

var (
	takeScript = redisconn.NewScript(takeScriptText)
	turnScript = redisconn.NewScript(turnScriptText)
)

// Both scripts count in entries (index, units), ordered by index, 13 bytes each, behind 6
// bytes with the sum. An index is a time in units of a width; an entry more than `span` widths old
// is out of the window. Since widths are whole and an event counts for all of its width, any span
// of time as long as the window holds at most the limit. Entries are only looked at when they leave
// the window, so that a full counter costs no more than an empty one.
//
// Redis' clock is the only one. If it was set back a little, time stops until it has caught up; if
// by more than `ahead` widths, the entries are from a future that will not be waited for, and are
// dropped.
const luaCommon = `
local floor, min, max = math.floor, math.min, math.max
local pack, parse, sub = struct.pack, struct.unpack, string.sub
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local entry = '<I7I6'
-- Gives the value ('' if it is of no use), where the entries begin that count at index k,
-- their sum, and k, or the last index if that is later.
local function load(value, k, span, ahead)
  local size = value and #value or 0
  if size < 19 or (size - 6) % 13 ~= 0 then return '', 1, 0, k end
  local last = parse('<I7', value, size - 12)
  if last > k + ahead then return '', 1, 0, k end
  local total, from = parse('<I6', value), 7
  while from < size do
    local index, units = parse(entry, value, from)
    if index >= k - span then break end
    total, from = total - units, from + 13
  end
  return value, from, total, max(k, last)
end
-- Gives the value, from there on, with units added at index k, which is not below the last.
local function add(value, from, total, k, units)
  local size = #value
  local keep = size
  if from < size then
    local index, had = parse(entry, value, size - 12)
    if index == k then keep, units, total = size - 13, units + had, total - had end
  end
  return pack('<I6', total + units) .. sub(value, from, keep) .. pack(entry, k, units)
end
`

// takeScriptText charges runs of tickets. KEYS are the counters. ARGV, as MessagePack arrays:
// five numbers for each limit (cap, width, span, tokens per microsecond, TTL in ms; a
// width of 0 makes it a token bucket); for each counter its limit (from 0) and how many
// units all tickets want of it; for each run the number of its tickets, of its counters,
// and the counters (from 1). With a fourth one, "peek", nothing is written.
//
// If every counter has room for all requested events, the runs need not be read. The answer is the
// room that each counter had before, from which the caller derives by the same rule which events
// passed; then each counter that refused an event, with the microseconds until it has room for one.
const takeScriptText = luaCommon + `
local limits, uses = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
local write = redis.call
if ARGV[4] == 'peek' then write = function() end end
local values = redis.call('MGET', unpack(KEYS))
local count = #KEYS
local answer, room, states, froms, totals, indexes = {}, {}, {}, {}, {}, {}
local tight = false
for i = 1, count do
  local l = uses[2 * i - 1] * 5
  local cap, width, value, free = limits[l + 1], limits[l + 2], values[i], nil
  if width > 0 then
    local span = limits[l + 3]
    local kept, from, total, k = load(value, floor(now / width), span, span + 1)
    free = cap - total
    states[i], froms[i], totals[i], indexes[i] = kept, from, total, k
  else
    local level = cap
    if value and #value == 16 then
      local left, at = parse('<dd', value)
      level = min(cap, left + max(0, now - at) * limits[l + 4])
      froms[i] = at > now -- the clock was set back: tokens must flow again from now on
    end
    states[i] = level
    free = floor(level + 1e-9)
  end
  room[i], answer[i] = free, max(0, free)
  if free < uses[2 * i] then tight = true end
end

local spent, refused = {}, {}
if tight then
  for i = 1, count do spent[i] = 0 end
  local runs = cmsgpack.unpack(ARGV[3])
  local at = 1
  while runs[at] do
    local want, last = runs[at], at + 1 + runs[at + 1]
    local pass = want
    for j = at + 2, last do
      local free = room[runs[j]]
      if free < pass then pass = free end
    end
    if pass > 0 then
      for j = at + 2, last do
        local i = runs[j]
        room[i] = room[i] - pass
        spent[i] = spent[i] + pass
      end
    end
    if pass < want then
      for j = at + 2, last do
        local i = runs[j]
        if room[i] <= 0 then refused[i] = true end
      end
    end
    at = last + 1
  end
else
  for i = 1, count do spent[i] = uses[2 * i] end
end

local n = count
for i = 1, count do
  local units = spent[i]
  if units > 0 or refused[i] then
    local l = uses[2 * i - 1] * 5
    local width, wait = limits[l + 2], 1
    if width > 0 then
      local value, from = states[i], froms[i]
      if units > 0 then
        value, from = add(value, from, totals[i], indexes[i], units), 7
        write('SET', KEYS[i], value, 'PX', limits[l + 5])
      end
      if refused[i] then
        local over = 1 - room[i]
        while over > 0 do
          local index, gone = parse(entry, value, from)
          over, from = over - gone, from + 13
          wait = (index + limits[l + 3] + 1) * width - now
        end
      end
    else
      local level = states[i] - units
      if units > 0 or froms[i] then write('SET', KEYS[i], pack('<dd', level, now), 'PX', limits[l + 5]) end
      wait = math.ceil((1 - level) / limits[l + 4])
    end
    if refused[i] then
      answer[n + 1], answer[n + 2] = i, max(wait, 1)
      n = n + 2
    end
  end
end
return cmsgpack.pack(answer)
`

// turnScriptText reserves turns, in order of asking: each at the earliest index that has
// room and is not before that of an earlier turn. KEYS: the counter. ARGV: cap, width,
// span, ahead, TTL in ms, how many turns, most microseconds to wait for the last of them.
// Answers the microseconds to wait, or, if that is too long, minus them, and nothing is
// reserved.
const turnScriptText = luaCommon + `
local cap, width, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local want, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local present = floor(now / width)
local value, from, total, at = load(redis.call('GET', KEYS[1]), present, span, tonumber(ARGV[4]))
local low, sum = from, total
while true do
  while low < #value do
    local index, units = parse(entry, value, low)
    if index >= at - span then break end
    total, low = total - units, low + 13
  end
  local free = min(cap - total, want)
  if free > 0 then
    -- sum counts from the first entry that is kept, total from the first of at's window.
    value = add(value, from, sum, at, free)
    low, from, sum = low - from + 7, 7, sum + free
    total, want = total + free, want - free
  end
  if want == 0 then break end
  at = parse(entry, value, low) + span + 1
  if at * width - now > most then return now - at * width end
end
local wait = 0
if at > present then wait = at * width - now end
if wait > most then return -wait end
redis.call('SET', KEYS[1], value, 'PX', ARGV[5])
return wait
`
