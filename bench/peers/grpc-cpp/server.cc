#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/async_unary_call.h>

#include <iostream>
#include <memory>
#include <thread>

#include "common.h"

namespace peer {

namespace {

// The service, as protoc's plug-in would write it for the asynchronous interface.
class Bench : public grpc::Service {
 public:
  Bench() {
    AddMethod(new grpc::internal::RpcServiceMethod(
        kMethod, grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodAsync(0);
  }

  void request(grpc::ServerContext* context, Payload* request,
               grpc::ServerAsyncResponseWriter<Payload>* writer, grpc::ServerCompletionQueue* queue,
               void* tag) {
    RequestAsyncUnary(0, context, request, writer, queue, queue, tag);
  }
};

// One call after the other; as many are waiting as a window has.
class Call {
 public:
  Call(Bench* bench, grpc::ServerCompletionQueue* queue, const Payloads& payloads)
      : bench_(bench), queue_(queue), payloads_(payloads) {
    wait();
  }

  void proceed() {
    if (is_answered_) return wait();
    is_answered_ = true;
    if (payloads_.answer(request_.value(), response_.mutable_value())) {
      writer_->Finish(response_, grpc::Status::OK, this);
    } else {
      grpc::Status status(grpc::StatusCode::INVALID_ARGUMENT, "a request of another length");
      writer_->FinishWithError(status, this);
    }
  }

 private:
  void wait() {
    is_answered_ = false;
    writer_.reset();
    context_ = std::make_unique<grpc::ServerContext>();
    writer_ = std::make_unique<grpc::ServerAsyncResponseWriter<Payload>>(context_.get());
    bench_->request(context_.get(), &request_, writer_.get(), queue_, this);
  }

  Bench* bench_;
  grpc::ServerCompletionQueue* queue_;
  const Payloads& payloads_;
  std::unique_ptr<grpc::ServerContext> context_;
  std::unique_ptr<grpc::ServerAsyncResponseWriter<Payload>> writer_;
  Payload request_, response_;
  bool is_answered_ = false;
};

// The server answers whenever it is asked, so there is nothing to do but to say so.
void obey() {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line == "stop") {
      say("done {}");
    } else if (line.rfind("serve ", 0) == 0) {
      say("started");
    } else {
      std::cerr << line << " is not known" << std::endl;
      std::_Exit(1);
    }
  }
  // The parent has gone; nothing is worth an orderly end.
  std::_Exit(0);
}

}  // namespace

int serve(const Options& options) {
  Payloads payloads(options);
  Bench bench;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.RegisterService(&bench);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0) {
    std::cerr << "the server does not start" << std::endl;
    return 1;
  }
  std::vector<std::unique_ptr<Call>> calls;
  for (size_t at = 0; at < options.window; at++) {
    calls.push_back(std::make_unique<Call>(&bench, queue.get(), payloads));
  }
  say("ready 127.0.0.1:" + std::to_string(port));
  std::thread(obey).detach();
  void* tag = nullptr;
  bool is_ok = false;
  while (queue->Next(&tag, &is_ok)) static_cast<Call*>(tag)->proceed();
  return 0;
}

}  // namespace peer
