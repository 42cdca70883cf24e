// What a trace holds of the environment and of the command line: what analysis needs, and no
// secrets, anywhere in the file.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;

ROLE(use) {
  void* memory = nullptr;
  return cudaMalloc(&memory, 1000) == cudaSuccess && cudaFree(memory) == cudaSuccess ? 0 : 1;
}

const std::string kSecret = "geheim-0815";
const std::string kRandom = "9f3c2b1a0d4e5f60718293a4b5c6d7e8f9012345";

struct Recorded {
  RawTrace trace;
  std::string bytes;
};

Recorded record(const std::vector<std::string>& arguments,
                std::map<std::string, std::string> environment) {
  const Folder folder;
  preload::Program program = preload::self("use", arguments);
  program.environment = std::move(environment);
  program.environment["TRAINTRACE_DIR"] = folder.path();
  program.environment["TRAINTRACE_RING_MB"] = "1";
  const Outcome outcome = preload::run(program);
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  const std::vector<std::string> traces = folder.traces();
  if (traces.size() != 1) {
    ADD_FAILURE() << traces.size() << " traces";
    return {};
  }
  return {preload::read_raw(traces[0]), preload::read_whole(traces[0])};
}

std::string joined(const std::string& arguments) {
  std::string text = arguments;
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

TEST(Secrets, OfTheEnvironmentAreNotKept) {
  Recorded run = record({}, {{"RANK", "3"},
                             {"TORCHELASTIC_RUN_ID", kRandom.substr(0, 32)},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"NCCL_SOCKET_IFNAME", "eth0,ens5"},
                             {"NCCL_ALGO", "ring"},
                             {"NCCL_COMM_ID", "http://me:" + kSecret + "@host:1"},
                             {"NCCL_DEBUG_FILE", kRandom},
                             {"NVIDIA_API_KEY", kSecret},
                             {"SLURM_JWT", kSecret},
                             {"TORCH_HOME", kSecret},
                             {"HF_TOKEN", kSecret},
                             {"AWS_SECRET_ACCESS_KEY", kSecret}});
  auto& facts = run.trace.facts;
  EXPECT_EQ(facts["env.RANK"], "3");
  EXPECT_EQ(facts["env.TORCHELASTIC_RUN_ID"], kRandom.substr(0, 32));
  EXPECT_EQ(facts["env.MASTER_ADDR"], "10.0.0.1");
  EXPECT_EQ(facts["env.NCCL_SOCKET_IFNAME"], "eth0,ens5");
  EXPECT_EQ(facts["env.NCCL_ALGO"], "ring");
  EXPECT_EQ(facts["env.NCCL_COMM_ID"], "http://***@host:1");
  EXPECT_EQ(facts["env.NCCL_DEBUG_FILE"], "***");
  EXPECT_EQ(facts["env.NVIDIA_API_KEY"], "(set)");
  EXPECT_EQ(facts["env.SLURM_JWT"], "(set)");
  EXPECT_EQ(facts["env.TORCH_HOME"], "(set)");
  EXPECT_EQ(facts.count("env.HF_TOKEN"), 0u);
  EXPECT_EQ(facts.count("env.AWS_SECRET_ACCESS_KEY"), 0u);
  EXPECT_EQ(run.bytes.find(kSecret), std::string::npos);
  EXPECT_EQ(run.bytes.find(kRandom), std::string::npos);
}

TEST(Secrets, OfTheCommandLineAreMasked) {
  Recorded run = record(
      {"--tokenizer=gpt2", "--max-tokens", "4096", "--api-key", kSecret, "--token=" + kSecret,
       "model.path=/data/llama", "x://me:" + kSecret + "@h", "--commit", kRandom},
      {});
  const std::string line = joined(run.trace.facts["command-line"]);
  EXPECT_TRUE(
      line.ends_with(" --role use --tokenizer=gpt2 --max-tokens 4096 --api-key *** "
                     "--token=*** model.path=/data/llama x://***@h --commit " +
                     kRandom))
      << line;
  EXPECT_EQ(run.bytes.find(kSecret), std::string::npos);
}

// Of a part one cannot tell whether it is a secret.
TEST(Secrets, WhatDoesNotFitIsLeftOutWhole) {
  Recorded run = record({"--lr=3", std::string(3900, 'a') + " " + kRandom + std::string(400, 'a')},
                        {{"NCCL_DEBUG_FILE", std::string(4070, 'a') + "/" + kRandom}});
  EXPECT_TRUE(joined(run.trace.facts["command-line"]).ends_with(" --role use --lr=3"));
  EXPECT_EQ(run.trace.facts["env.NCCL_DEBUG_FILE"], "(too long)");
}

}  // namespace
