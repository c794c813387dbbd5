// The peer gRPC C++: protobuf's BytesValue as request and response, on one connection, with the
// asynchronous interface on one thread at each end. Its contract with petasos-bench is in
// ../README.md.
#pragma once

#include <google/protobuf/wrappers.pb.h>

#include <cstdint>
#include <map>
#include <string>

namespace peer {

using Payload = google::protobuf::BytesValue;

inline constexpr char kMethod[] = "/petasos.bench.Bench/Call";
// gRPC's default of 4 MiB would refuse what is measured.
inline constexpr int kMessageBytesMax = 1 << 30;

struct Options {
  std::string server;
  size_t size = 64;
  size_t response = 64;
  size_t window = 1;
};

// What requests and responses hold: the number of the call as far as it fits, then a pattern.
class Payloads {
 public:
  explicit Payloads(const Options& options);
  void write_request(uint64_t number, std::string* request) const;
  // Whether the request is as long as it must be; then the response is its answer.
  bool answer(const std::string& request, std::string* response) const;
  // Whether a response has the right length, number and last byte, and all bytes if `thorough`.
  bool is_answer(uint64_t number, const std::string& response, bool thorough) const;

 private:
  std::string request_, response_;
  size_t number_bytes_;
};

// Latencies in nanoseconds, of which ten bits are kept.
class Histogram {
 public:
  void record(uint64_t nanos);
  std::string json() const;

 private:
  std::map<uint64_t, uint64_t> counts_;
};

// Writes a line to the parent.
void say(const std::string& line);

// Both return the process's status.
int serve(const Options& options);
int call(const Options& options);

}  // namespace peer
