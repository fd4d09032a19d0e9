-- Copyright 2026 The Weft Authors.
-- SPDX-License-Identifier: Apache-2.0
--
-- For wrk: loads the proxy and checks each answer.  wrk --script examples/proxy/search.lua http://127.0.0.1:8080
-- Each request has a query of its own; an answer is right if its status is 200, its query was asked by this thread and
-- not answered yet, and its body is, to the byte, what the backends' rule (backend.cc) makes of the query.
-- The last line is "check: ok" or "check: FAILED".

local threads = {}

function setup(thread)
  table.insert(threads, thread)
  thread:set("thread_number", #threads)
end

function init()
  right = 0
  wrong = 0
  first_wrong = ""
  asked = {}
  count = 0
end

function request()
  count = count + 1
  local query = string.format("w%dq%d", thread_number, count)
  asked[query] = true
  return wrk.format("GET", "/search?q=" .. query)
end

local function expected_body(query)
  local hash = 0
  for i = 1, #query do
    hash = (hash * 31 + query:byte(i)) % 1000003
  end
  local hits = {}
  for n = 1, 10 do
    local id = (hash + 7919 * n) % 1000003
    hits[n] = {id = id, score = id % 1000}
  end
  table.sort(hits, function(a, b)
    if a.score ~= b.score then return a.score > b.score end
    return a.id < b.id
  end)
  local parts = {}
  for n, hit in ipairs(hits) do
    parts[n] = string.format('{"id":%d,"score":%d,"title":"document %d"}', hit.id, hit.score, hit.id)
  end
  return '{"query":"' .. query .. '","hits":[' .. table.concat(parts, ",") .. "]}\n"
end

function response(status, headers, body)
  local query = body:match('^{"query":"(%w+)"')
  if status == 200 and query and asked[query] and body == expected_body(query) then
    asked[query] = nil
    right = right + 1
  else
    wrong = wrong + 1
    if first_wrong == "" then first_wrong = status .. " " .. body end
  end
end

function done(summary, latency, requests)
  local right_ones, wrong_ones = 0, 0
  for _, thread in ipairs(threads) do
    right_ones = right_ones + thread:get("right")
    wrong_ones = wrong_ones + thread:get("wrong")
    if thread:get("first_wrong") ~= "" then print("wrong: " .. thread:get("first_wrong")) end
  end
  local errors = summary.errors
  print(string.format("%.0f searches/s; time of a search: mean %.2f ms, p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f",
    summary.requests / (summary.duration / 1e6), latency.mean / 1e3, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3, latency.max / 1e3))
  print(string.format("answers: right %d, wrong %d, not 2xx %d; errors: connect %d, read %d, write %d, time-out %d", right_ones,
    wrong_ones, errors.status, errors.connect, errors.read, errors.write, errors.timeout))
  local clean = errors.status + errors.connect + errors.read + errors.write + errors.timeout == 0
  print("check: " .. ((right_ones > 0 and wrong_ones == 0 and clean) and "ok" or "FAILED"))
end
