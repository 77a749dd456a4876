package dlq

import "github.com/sloengine/sloengine/reliability/redisconn"

// The keys: entries (hash: ID to value), order (sorted set: ID by number), saved (sorted
// set: ID by ms), tally (hash: counts, and bytes), gone (sorted set: removed IDs by ms),
// seq (last number). All of them expire together, a TTL after the last entry came in;
// before that every script first removes entries older than the TTL, some at a time.
const redisCommon = `
local entries, order, saved, tally, gone, seq = unpack(KEYS)
local oldest, ttl, now = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local function count(value, by)
  local key = string.match(value, '^[^\n]*')
  if redis.call('HINCRBY', tally, key, by) == 0 then redis.call('HDEL', tally, key) end
  redis.call('HINCRBY', tally, 'bytes', by * (#value - #key - 1))
end
local function drop(id)
  local value = redis.call('HGET', entries, id)
  redis.call('ZREM', order, id)
  redis.call('ZREM', saved, id)
  if not value then return 0 end
  redis.call('HDEL', entries, id)
  count(value, -1)
  return 1
end
local function bury(id)
  if drop(id) == 0 then return 0 end
  redis.call('ZADD', gone, now, id)
  return 1
end
local function trim(max)
  redis.call('ZREMRANGEBYRANK', gone, 0, -1 - max)
  redis.call('PEXPIRE', gone, ttl)
end
repeat
  local old = redis.call('ZRANGEBYSCORE', saved, '-inf', '(' .. oldest, 'LIMIT', 0, 1000)
  for _, id in ipairs(old) do drop(id) end
until #old < 1000
`

func redisScript(text string) *redisconn.Script { return redisconn.NewScript(redisCommon + text) }

var (
	// ARGV: the bound, then ID, ms and value of each. Answers 1 for each that is new, or
	// nil if they do not fit, and nothing was saved.
	redisSave = redisScript(`
local max, fresh, taken = tonumber(ARGV[4]), {}, {}
local n = 0
for i = 5, #ARGV, 3 do
  local id = ARGV[i]
  local is = 0
  if not taken[id] and redis.call('HEXISTS', entries, id) == 0 and not redis.call('ZSCORE', gone, id) then
    is, n, taken[id] = 1, n + 1, true
  end
  fresh[#fresh + 1] = is
end
if n == 0 then return fresh end
if redis.call('HLEN', entries) + n > max then return false end
local at = redis.call('INCRBY', seq, n) - n
for i = 5, #ARGV, 3 do
  if fresh[(i - 2) / 3] == 1 then
    at = at + 1
    redis.call('HSET', entries, ARGV[i], ARGV[i + 2])
    redis.call('ZADD', order, at, ARGV[i])
    redis.call('ZADD', saved, ARGV[i + 1], ARGV[i])
    count(ARGV[i + 2], 1)
  end
end
for i = 1, 6 do redis.call('PEXPIRE', KEYS[i], ttl) end
return fresh
`)
	// ARGV: direction, bound, limit. Answers number and value of each.
	redisList = redisScript(`
local rows
if ARGV[4] == 'new' then
  rows = redis.call('ZREVRANGEBYSCORE', order, ARGV[5], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[6])
else
  rows = redis.call('ZRANGEBYSCORE', order, ARGV[5], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[6])
end
local out = {}
for i = 1, #rows, 2 do
  out[i] = string.format('%.0f', tonumber(rows[i + 1]))
  out[i + 1] = redis.call('HGET', entries, rows[i]) or ''
end
return out
`)
	// ARGV: IDs. Answers the values.
	redisGet = redisScript(`
local out = {}
for i = 4, #ARGV do out[i - 3] = redis.call('HGET', entries, ARGV[i]) end
return out
`)
	// ARGV: how many removed IDs to remember, IDs. Answers how many there were.
	redisRemove = redisScript(`
local n = 0
for i = 5, #ARGV do n = n + bury(ARGV[i]) end
trim(tonumber(ARGV[4]))
return n
`)
	// ARGV: ID, old and new value of each. Entries that changed meanwhile are left alone.
	redisReplace = redisScript(`
local n = 0
for i = 4, #ARGV, 3 do
  if redis.call('HGET', entries, ARGV[i]) == ARGV[i + 1] then
    count(ARGV[i + 1], -1)
    redis.call('HSET', entries, ARGV[i], ARGV[i + 2])
    redis.call('ZADD', order, redis.call('INCR', seq), ARGV[i])
    count(ARGV[i + 2], 1)
    n = n + 1
  end
end
return n
`)
	redisStats = redisScript(`
local first = redis.call('ZRANGE', saved, 0, 0, 'WITHSCORES')
local last = redis.call('ZREVRANGE', saved, 0, 0, 'WITHSCORES')
local function at(row) if row[2] then return string.format('%.0f', tonumber(row[2])) end return '' end
local memory = 0
for _, key in ipairs(KEYS) do
  local n = redis.pcall('MEMORY', 'USAGE', key)
  if type(n) == 'number' then memory = memory + n end
end
return {redis.call('HGETALL', tally), at(first), at(last), memory}
`)
	// ARGV: limit in ms, how many at once, how many removed IDs to remember.
	redisPurge = redisScript(`
local old = redis.call('ZRANGEBYSCORE', saved, '-inf', '(' .. ARGV[4], 'LIMIT', 0, ARGV[5])
local n = 0
for _, id in ipairs(old) do n = n + bury(id) end
trim(tonumber(ARGV[6]))
return n
`)
)
