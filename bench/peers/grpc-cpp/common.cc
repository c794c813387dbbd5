#include "common.h"

#include <algorithm>
#include <cstring>
#include <iostream>

namespace peer {

namespace {

std::string pattern(size_t length, unsigned step) {
  std::string data(length, '\0');
  for (size_t at = 0; at < length; at++) data[at] = static_cast<char>(at * step);
  return data;
}

}  // namespace

Payloads::Payloads(const Options& options)
    : request_(pattern(options.size, 7)),
      response_(pattern(options.response, 11)),
      number_bytes_(std::min({options.size, options.response, sizeof(uint64_t)})) {}

void Payloads::write_request(uint64_t number, std::string* request) const {
  *request = request_;
  std::memcpy(request->data(), &number, number_bytes_);
}

bool Payloads::answer(const std::string& request, std::string* response) const {
  if (request.size() != request_.size()) return false;
  *response = response_;
  std::memcpy(response->data(), request.data(), number_bytes_);
  return true;
}

bool Payloads::is_answer(uint64_t number, const std::string& response, bool thorough) const {
  if (response.size() != response_.size()) return false;
  size_t rest = number_bytes_;
  if (!thorough && !response.empty()) rest = std::max(rest, response.size() - 1);
  return std::memcmp(response.data(), &number, number_bytes_) == 0 &&
         response.compare(rest, std::string::npos, response_, rest, std::string::npos) == 0;
}

void Histogram::record(uint64_t nanos) {
  int shift = 0;
  while (nanos >> shift >= 1024) shift++;
  counts_[nanos >> shift << shift]++;
}

std::string Histogram::json() const {
  std::string json = "[";
  for (auto [nanos, count] : counts_) {
    if (json.size() > 1) json += ",";
    json += "[" + std::to_string(nanos) + "," + std::to_string(count) + "]";
  }
  return json + "]";
}

void say(const std::string& line) { std::cout << line << std::endl; }

}  // namespace peer
