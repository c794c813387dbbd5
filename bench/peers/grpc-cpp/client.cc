#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

#include "common.h"

namespace peer {

namespace {

using Clock = std::chrono::steady_clock;
using Stub = grpc::TemplatedGenericStub<Payload, Payload>;

// Of a window of calls one in so many is timed and checked byte for byte.
constexpr uint64_t kSample = 32;
// A call that takes longer has failed.
constexpr std::chrono::seconds kDeadline(20);

uint64_t nanos_since(Clock::time_point begun) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begun).count();
}

// One call, whose messages are used again.
struct Call {
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Payload>> reader;
  Payload request, response;
  grpc::Status status;
  uint64_t number = 0;
  bool is_timed = false;
  Clock::time_point begun;
};

// The closed loop of one turn.
class Load {
 public:
  Load(Stub* stub, grpc::CompletionQueue* queue, const Payloads& payloads, size_t window,
       std::chrono::microseconds duration)
      : stub_(stub), queue_(queue), payloads_(payloads), calls_(window), begun_(Clock::now()),
        ends_(begun_ + duration), sample_(window == 1 ? 1 : kSample) {}

  // Makes calls; whether all went well.
  bool run() {
    for (Call& call : calls_) begin(&call);
    void* tag = nullptr;
    bool is_ok = false;
    while (outstanding_ > 0 && queue_->Next(&tag, &is_ok)) {
      Call* call = static_cast<Call*>(tag);
      outstanding_--;
      if (!is_ok || !end(*call)) return false;
      begin(call);
    }
    return true;
  }

  std::string json() const {
    std::ostringstream json;
    json << "{\"completed\":" << completed_ << ",\"elapsed_s\":" << nanos_since(begun_) / 1e9
         << ",\"latency\":" << latency_.json() << "}";
    return json.str();
  }

 private:
  void begin(Call* call) {
    call->number = next_++;
    call->is_timed = call->number % sample_ == 0;
    if (call->is_timed) {
      call->begun = Clock::now();
      is_over_ = is_over_ || call->begun >= ends_;
    }
    if (is_over_) return;
    call->context = std::make_unique<grpc::ClientContext>();
    call->context->set_deadline(std::chrono::system_clock::now() + kDeadline);
    payloads_.write_request(call->number, call->request.mutable_value());
    call->reader = stub_->PrepareUnaryCall(call->context.get(), kMethod, call->request, queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, call);
    outstanding_++;
  }

  bool end(const Call& call) {
    if (!call.status.ok()) {
      std::cerr << call.status.error_message() << std::endl;
      return false;
    }
    if (!payloads_.is_answer(call.number, call.response.value(), call.is_timed)) {
      std::cerr << "a response with other bytes than sent" << std::endl;
      return false;
    }
    completed_++;
    if (call.is_timed) latency_.record(nanos_since(call.begun));
    return true;
  }

  Stub* stub_;
  grpc::CompletionQueue* queue_;
  const Payloads& payloads_;
  std::vector<Call> calls_;
  Clock::time_point begun_, ends_;
  uint64_t sample_, next_ = 0, completed_ = 0;
  size_t outstanding_ = 0;
  bool is_over_ = false;
  Histogram latency_;
};

}  // namespace

int call(const Options& options) {
  Payloads payloads(options);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  auto channel =
      grpc::CreateCustomChannel(options.server, grpc::InsecureChannelCredentials(), arguments);
  Stub stub(channel);
  grpc::CompletionQueue queue;
  say("ready");
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command, phase;
    uint64_t micros = 0;
    if (!(words >> command >> phase >> micros) || command != "turn") {
      std::cerr << line << " is not known" << std::endl;
      return 1;
    }
    size_t window = phase == "window" ? options.window : 1;
    Load load(&stub, &queue, payloads, window, std::chrono::microseconds(micros));
    if (!load.run()) std::_Exit(1);
    say("done " + load.json());
  }
  return 0;
}

}  // namespace peer
