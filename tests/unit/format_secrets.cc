// uses: format/secrets.cc format/secret_names.cc
// What is masked in command lines and values, and what stays readable.
#include "format/secrets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace traintrace::format {
namespace {

std::string masked(std::string text) {
  text.resize(mask_secrets(text.data(), text.size()));
  return text;
}

// Arguments are separated by '|' here.
std::string masked_line(std::string line) {
  std::replace(line.begin(), line.end(), '|', '\0');
  line = masked(line);
  std::replace(line.begin(), line.end(), '\0', '|');
  return line;
}

std::string masked_value(Kept kept, std::string value) {
  value.resize(mask_value(kept, value.data(), value.size()));
  return value;
}

Kept kept(const std::string& name) {
  return kept_of_variable(name.data(), name.size());
}

const std::string kHex40 = "9f3c2b1a0d4e5f60718293a4b5c6d7e8f9012345";

struct Line {
  const char* line;
  const char* expected;
};

TEST(Secrets, ValuesOfOptionsAreMasked) {
  for (const Line& line : {
           Line{"train.py|--api-key|hello|--lr|3", "train.py|--api-key|***|--lr|3"},
           Line{"--token=abc|x", "--token=***|x"},
           Line{"--password|1234", "--password|***"},
           Line{"--password=my dog's name", "--password=***"},
           Line{"--wandb.apiKey|val|--x", "--wandb.apiKey|***|--x"},
           Line{"wandb.api_key=v lr=1", "wandb.api_key=***"},
           Line{"+logger.auth_token=val", "+logger.auth_token=***"},
           Line{"AWS_SECRET_ACCESS_KEY=/abc/def", "AWS_SECRET_ACCESS_KEY=***"},
           Line{"-e|OPENAI_API_KEY=val|x", "-e|OPENAI_API_KEY=***|x"},
           Line{"sh|-c|exec train --password 'val' --lr 3",
                "sh|-c|exec train --password '***' --lr 3"},
           Line{"sh|-c|env A=1 HF_TOKEN=val python train.py --lr 3",
                "sh|-c|env A=1 HF_TOKEN=*** python train.py --lr 3"},
           Line{R"({"lr": 3, "password": "a b", "x": 1})",
                R"({"lr": 3, "password": "***", "x": 1})"},
           Line{"-H|Authorization: Bearer xyz", "-H|Authorization: ***"},
           Line{"https://h/p?lr=1&token=abc&b=2", "https://h/p?lr=1&token=***&b=2"},
           Line{"--private-key|-----BEGIN KEY-----|x", "--private-key|***|x"},
           Line{"--use-token|--verbose", "--use-token|--verbose"},
       }) {
    EXPECT_EQ(masked_line(line.line), line.expected);
  }
}

TEST(Secrets, NothingGetsLonger) {
  EXPECT_EQ(masked_line("--token=a|--password|b1|--api-key="),
            "--token=*|--password|**|--api-key=");
}

TEST(Secrets, CredentialsInUrls) {
  EXPECT_EQ(masked("postgresql://me:pass@word@db:5432/x"), "postgresql://***@db:5432/x");
  EXPECT_EQ(masked("--store=https://t0ken@host/a@b"), "--store=https://***@host/a@b");
  EXPECT_EQ(masked("tcp://10.0.0.1:29500/a@b"), "tcp://10.0.0.1:29500/a@b");
  EXPECT_EQ(masked("://"), "://");
  EXPECT_EQ(masked("a://@b"), "a://@b");
}

TEST(Secrets, TokensOfKnownServices) {
  for (const char* token :
       {"hf_abcdefghijklmnopqrSTUVWX", "sk-proj-Ab1_cdefghijklmnop", "nvapi-abcdefghij0123456789",
        "ghp_abcdefghijklmnop0123", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.abc_D-1",
        "glpat-abcdefghijklmnop1234", "AIzaSyA1234567890abcdefgh"}) {
    EXPECT_EQ(masked(token), "***");
    EXPECT_EQ(masked(std::string("a=1,x:") + token + "/z"), "a=1,x:***/z") << token;
    EXPECT_EQ(masked_value(Kept::Identity, token), "***");
  }
  for (const char* near : {"hf_transfer", "hf_transfer_enabled_for_all_runs", "sk-learn", "eyJ",
                           "AKIA-1", "npm_test"}) {
    EXPECT_EQ(masked(near), near);
  }
}

TEST(Secrets, RandomStrings) {
  EXPECT_EQ(masked(kHex40), "***");  // a key of Weights & Biases
  EXPECT_EQ(masked("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "***");
  EXPECT_EQ(masked("--x=q7Rt2LmZ9pXc4VbN8sWd"), "--x=***");
  EXPECT_EQ(masked("https://hooks.example.com/services/q7Rt2LmZ9pXc4VbN8sWd"),
            "https://hooks.example.com/services/***");
}

// Nine of ten strings of 32 random characters, whatever the alphabet.
TEST(Secrets, MostRandomStringsAreFound) {
  std::mt19937 random(1);
  for (const std::string alphabet :
       {"0123456789abcdef", "0123456789abcdefghijklmnopqrstuvwxyz",
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}) {
    int found = 0;
    for (int i = 0; i < 1000; ++i) {
      std::string text(32, ' ');
      std::generate(text.begin(), text.end(), [&] { return alphabet[random() % alphabet.size()]; });
      found += masked(text) == "***" ? 1 : 0;
    }
    EXPECT_GE(found, 900) << alphabet;
  }
}

// 40 hexadecimal digits after an option that says so are a commit, and what lies in a path is a
// path.
TEST(Secrets, CommitsAndPathsStay) {
  for (const std::string& line : std::vector<std::string>{
           "--commit|" + kHex40, "git_sha=" + kHex40, "--image|repo@sha256:" + kHex40,
           "--revision=" + kHex40, "--rdzv-id=" + kHex40.substr(0, 32),
           "--model|/hub/models--a--b/snapshots/" + kHex40 + "/config.json",
           "--file=./runs/q7Rt2LmZ9pXc4VbN8sWd",
           "--token-file|/run/secrets/q7Rt2LmZ9pXc4VbN8sWd"}) {
    EXPECT_EQ(masked_line(line), line);
  }
}

TEST(Secrets, ATrainingCommandStays) {
  for (const char* line :
       {"--tokenizer=gpt2",
        "--max-tokens|4096",
        "--keyframe|3",
        "--tokens-per-batch=500000",
        "--num-key-value-heads|8",
        "model.pad_token=<pad>",
        "--eos-token|</s>",
        "--image-token|<img>",
        "--token|5",
        "use_auth_token=True",
        "--key|/etc/ssl/host.pem",
        "--password-file|/run/pw",
        "data.text_key=content",
        "-p|29500",
        "--passes|3",
        "--monkey=see",
        "--secret",
        "/usr/bin/"
        "python3|-u|-m|torch.distributed.run|--nproc-per-node=8|--rdzv-endpoint=ip-10-0-0-1.ec2."
        "internal:29500|"
        "train.py|model=llama/8b|+trainer.devices=[0,1,2,3]|optim.lr=3e-4|hydra.run.dir=outputs/"
        "2024-11-05/14-33-21",
        "--strategy|DistributedDataParallelStrategy",
        "--resume|checkpoint0001000step2.pt",
        "--name|Llama-3.1-8B-Instruct-finetune-bf16-lr3e-4-seq4096",
        "--seed|12345678901234567890123",
        "NCCL_SOCKET_IFNAME=eth0",
        "MASTER_ADDR=10.0.0.1",
        "--date=20241105T143321Z",
        "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "mlx5_0:1,mlx5_1:1",
        "max_split_size_mb:128,expandable_segments:True",
        "--kernel|ampere_sgemm_128x64_nn"}) {
    EXPECT_EQ(masked_line(line), line);
  }
}

TEST(Secrets, IdentitiesStayWhereTheyAreRandom) {
  EXPECT_EQ(masked_value(Kept::Identity, kHex40), kHex40);
  EXPECT_EQ(masked_value(Kept::Value, kHex40), "***");
  EXPECT_EQ(masked_value(Kept::Identity, "tcp://a:b@c"), "tcp://***@c");
}

TEST(Secrets, VariablesOfTheEnvironment) {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "TORCHELASTIC_RUN_ID",
                           "PMIX_NAMESPACE", "MASTER_ADDR", "OMPI_MCA_ess_base_jobid"}) {
    EXPECT_EQ(kept(name), Kept::Identity) << name;
  }
  for (const char* name :
       {"NCCL_ALGO", "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TRAINTRACE_DIR", "NVIDIA_TF32_OVERRIDE"}) {
    EXPECT_EQ(kept(name), Kept::Value) << name;
  }
  for (const char* name : {"NVIDIA_API_KEY", "NVIDIA_REQUIRE_CUDA", "SLURM_JWT", "NCCL_API_TOKEN",
                           "TORCH_HOME", "MASTER_PASSWORD", "TORCHELASTIC_ERROR_FILE"}) {
    EXPECT_EQ(kept(name), Kept::Name) << name;
  }
  for (const char* name : {"", "PATH", "HF_TOKEN", "RANKS", "RAN", "XNCCL_ALGO", "nccl_algo",
                           "OMPI_MCA_ess_base_jobid2", "AWS_SECRET_ACCESS_KEY", "PWD"}) {
    EXPECT_EQ(kept(name), Kept::Nothing) << name;
  }
}

// Whatever the text: what comes out is no longer, and nothing behind the text is touched.
TEST(Secrets, AnyText) {
  std::mt19937 random(2);
  const std::string alphabet("ab9Z=:/@\"' -_+.&*?\0|~", 21);
  const std::string pieces[] = {"--token", "password", "://", "hf_", "commit", kHex40};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t parts = random() % 24; parts > 0; --parts) {
      text += random() % 3 == 0 ? pieces[random() % std::size(pieces)]
                                : std::string(1, alphabet[random() % alphabet.size()]);
    }
    const size_t bytes = text.size();
    text += "END";
    const size_t left = mask_secrets(text.data(), bytes);
    ASSERT_LE(left, bytes);
    ASSERT_EQ(text.substr(bytes), "END");
  }
}

}  // namespace
}  // namespace traintrace::format
