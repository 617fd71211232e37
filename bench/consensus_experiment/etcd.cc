/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd under load, by its gRPC interface: asynchronous calls over one channel of
 * each client. Reads are linearizable, etcd's default.
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "etcd.grpc.pb.h"
#include "peers.h"

extern "C" {
#include "../../common/complain.h"
}

namespace
{

using etcdserverpb::KV;
using etcdserverpb::PutRequest;
using etcdserverpb::PutResponse;
using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;

constexpr auto call_timeout = std::chrono::seconds(10);
constexpr auto open_timeout = std::chrono::seconds(10);

/* A call in progress; a gRPC context serves only one call. */
struct call {
	std::unique_ptr<grpc::ClientContext> context;
	std::unique_ptr<grpc::ClientAsyncResponseReader<RangeResponse>> range;
	std::unique_ptr<grpc::ClientAsyncResponseReader<PutResponse>> put;
	RangeResponse range_response;
	PutResponse put_response;
	grpc::Status status;
	bool update;
};

struct client {
	std::unique_ptr<KV::Stub> stub;
	grpc::CompletionQueue queue;
	std::vector<call> calls;
	load_done *done;
	void *arg;
	bool complained;
};

/* The n-th address of the list, which repeats. */
std::string address_of(const char *where, uint32_t number)
{
	std::vector<std::string> all(1);

	for (; *where; where++) {
		if (*where == ',')
			all.emplace_back();
		else
			all.back() += *where;
	}
	return all[number % all.size()];
}

void *client_open(const char *where, uint32_t number, uint32_t lanes,
    load_done *done, void *arg)
{
	std::string address = address_of(where, number);
	std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel(
	    address, grpc::InsecureChannelCredentials());

	if (!channel->WaitForConnected(
		std::chrono::system_clock::now() + open_timeout)) {
		complain("cannot connect to etcd at %s in 10 s: is it running, "
			 "and is that its client address?",
		    address.c_str());
		return nullptr;
	}
	auto client = new struct client();
	client->stub = KV::NewStub(channel);
	client->calls.resize(lanes);
	client->done = done;
	client->arg = arg;
	return client;
}

void client_close(void *arg)
{
	auto client = static_cast<struct client *>(arg);
	void *tag;
	bool ok;

	for (call &call : client->calls)
		if (call.context)
			call.context->TryCancel();
	client->queue.Shutdown();
	while (client->queue.Next(&tag, &ok))
		;
	delete client;
}

int client_submit(void *arg, uint32_t lane, const struct load_request *request)
{
	auto client = static_cast<struct client *>(arg);
	call &call = client->calls[lane];
	void *tag = reinterpret_cast<void *>(uintptr_t(lane));

	call.context = std::make_unique<grpc::ClientContext>();
	call.context->set_deadline(
	    std::chrono::system_clock::now() + call_timeout);
	call.update = request->value != nullptr;
	if (call.update) {
		PutRequest put;

		put.set_key(request->key, request->key_size);
		put.set_value(request->value, request->value_size);
		call.put = client->stub->AsyncPut(
		    call.context.get(), put, &client->queue);
		call.put->Finish(&call.put_response, &call.status, tag);
	} else {
		RangeRequest range;

		range.set_key(request->key, request->key_size);
		call.range = client->stub->AsyncRange(
		    call.context.get(), range, &client->queue);
		call.range->Finish(&call.range_response, &call.status, tag);
	}
	return 1;
}

void finish(struct client *client, uint32_t lane)
{
	call &call = client->calls[lane];
	enum load_outcome outcome = LOAD_OK;
	const std::string *value = nullptr;

	if (!call.status.ok()) {
		outcome = LOAD_UNKNOWN;
		if (!client->complained)
			complain("etcd: %s (code %d)",
			    call.status.error_message().c_str(),
			    int(call.status.error_code()));
		client->complained = true;
	} else if (!call.update && call.range_response.kvs_size() == 0) {
		outcome = LOAD_MISSING;
	} else if (!call.update) {
		value = &call.range_response.kvs(0).value();
	}
	client->done(client->arg, lane, outcome,
	    value ? value->data() : nullptr, value ? value->size() : 0);
	call.context.reset();
}

int client_poll(void *arg, uint64_t wait_ns)
{
	auto client = static_cast<struct client *>(arg);
	auto until = std::chrono::system_clock::now() +
	    std::chrono::nanoseconds(wait_ns);
	void *tag;
	bool ok;

	/* Wait only for the first answer; take the others that have come. */
	while (client->queue.AsyncNext(&tag, &ok, until) ==
	    grpc::CompletionQueue::GOT_EVENT) {
		finish(client, uint32_t(reinterpret_cast<uintptr_t>(tag)));
		until = std::chrono::system_clock::time_point();
	}
	return 0;
}

} // namespace

const struct load_backend etcd_backend = {
	"etcd",
	"127.0.0.1:2379",
	"addresses with commas: the clients take them in turn",
	256,
	client_open,
	client_close,
	client_submit,
	client_poll,
};
