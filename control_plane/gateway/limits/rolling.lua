-- The counts of book.py, for several gateways: one atomic step on the server's own clock.
--
-- KEYS, three for each scope: its charges (sorted set: call -> when charged), their tokens (hash: call -> tokens, and
-- "*" -> the sum), and the calls that run (sorted set: call -> end of its lease). All of one hash slot.
-- ARGV: what to do, the call, tokens (-1: give all back), how many to wait for where there is no room, window and lease,
-- then rpm, tpm, concurrency of each scope (-1: none). Times are microseconds.
-- Returns whether it was done, then for each scope: requests, tokens, running, time until all is free, and how long to
-- wait for room for requests and tokens (0: there is room, -1: never), and whether too many calls run.

local op, call, tokens = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most, window, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local CHUNK = 500

local function sum_of(amounts)
  local sum = 0
  for _, amount in ipairs(amounts) do sum = sum + (tonumber(amount) or 0) end
  return sum
end

local function expire(charges, amounts, running)
  while true do
    local old = redis.call('ZRANGEBYSCORE', charges, '-inf', now - window, 'LIMIT', 0, CHUNK)
    if #old == 0 then break end
    local freed = sum_of(redis.call('HMGET', amounts, unpack(old)))
    redis.call('HDEL', amounts, unpack(old))
    redis.call('ZREM', charges, unpack(old))
    if freed ~= 0 then redis.call('HINCRBY', amounts, '*', -freed) end
  end
  redis.call('ZREMRANGEBYSCORE', running, '-inf', now)
end

local function left_of(charged_at) return math.max(1, charged_at + window - now) end

local function until_requests(charges, count)
  local found = redis.call('ZRANGE', charges, count - 1, count - 1, 'WITHSCORES')
  return found[2] and left_of(tonumber(found[2])) or -1
end

local function until_tokens(charges, amounts, count)
  local from = 0
  while true do
    local found = redis.call('ZRANGE', charges, from, from + CHUNK - 1, 'WITHSCORES')
    if #found == 0 then return -1 end
    for i = 1, #found, 2 do
      count = count - (tonumber(redis.call('HGET', amounts, found[i])) or 0)
      if count <= 0 then return left_of(tonumber(found[i + 1])) end
    end
    from = from + CHUNK
  end
end

local function take_back(charges, amounts, running)
  local held = tonumber(redis.call('HGET', amounts, call)) or 0
  if redis.call('ZREM', charges, call) == 1 and held ~= 0 then redis.call('HINCRBY', amounts, '*', -held) end
  redis.call('HDEL', amounts, call)
  redis.call('ZREM', running, call)
end

local done, answer, scopes = 1, {}, {}
for i = 1, #KEYS, 3 do
  local charges, amounts, running = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local rpm, tpm, together = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8])
  expire(charges, amounts, running)
  local requests = redis.call('ZCARD', charges)
  local used = tonumber(redis.call('HGET', amounts, '*')) or 0
  local runs = redis.call('ZCARD', running)
  local wait_requests, wait_tokens, busy = 0, 0, 0
  if op == 'enter' or op == 'reserve' then
    local more = (op == 'enter' or not redis.call('ZSCORE', charges, call)) and 1 or 0
    if rpm >= 0 and more > 0 and requests + more > rpm then
      wait_requests = until_requests(charges, requests + more - rpm)
    end
    if tpm >= 0 and tokens > tpm then
      wait_tokens = -1
    elseif tpm >= 0 and tokens > 0 and used + tokens > tpm then
      wait_tokens = until_tokens(charges, amounts, used + math.min(most, tpm) - tpm)
    end
    if op == 'enter' and together >= 0 and runs >= together then busy = 1 end
    if wait_requests ~= 0 or wait_tokens ~= 0 or busy ~= 0 then done = 0 end
  end
  scopes[#scopes + 1] = {charges, amounts, running, together}
  answer[#answer + 1] = {requests, used, runs, 0, wait_requests, wait_tokens, busy}
end

for i, scope in ipairs(scopes) do
  local charges, amounts, running, together = unpack(scope)
  local facts = answer[i]
  if op == 'enter' and done == 1 then
    redis.call('ZADD', charges, now, call)
    if together >= 0 then redis.call('ZADD', running, now + lease, call) end
    facts[1] = facts[1] + 1
  elseif op == 'reserve' and done == 1 then
    if redis.call('ZADD', charges, now, call) == 1 then facts[1] = facts[1] + 1 end
    redis.call('HSET', amounts, call, tokens)
    redis.call('HINCRBY', amounts, '*', tokens)
    if together >= 0 then redis.call('ZADD', running, now + lease, call) end
    facts[2] = facts[2] + tokens
  elseif op == 'reserve' or (op == 'settle' and tokens < 0) then
    take_back(charges, amounts, running)
  elseif op == 'settle' then
    redis.call('ZREM', running, call)
    if redis.call('ZSCORE', charges, call) then
      local held = tonumber(redis.call('HGET', amounts, call)) or 0
      redis.call('HSET', amounts, call, tokens)
      redis.call('HINCRBY', amounts, '*', tokens - held)
    end
  elseif op == 'renew' then
    redis.call('ZADD', running, 'XX', now + lease, call)
  end
  if op ~= 'look' then
    local keep = math.ceil((window + lease) / 1000)
    redis.call('PEXPIRE', charges, keep)
    redis.call('PEXPIRE', amounts, keep)
    redis.call('PEXPIRE', running, keep)
  end
  local newest = redis.call('ZRANGE', charges, -1, -1, 'WITHSCORES')
  if newest[2] then facts[4] = left_of(tonumber(newest[2])) end
end

local flat = {done}
for _, facts in ipairs(answer) do
  for _, fact in ipairs(facts) do flat[#flat + 1] = fact end
end
return flat
