// uses: interpose/keeper/storage.cc interpose/base/files.cc
// What sort of storage a path lies on, by the text of /proc/self/mountinfo alone.
#include "interpose/keeper/storage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace {

using traintrace::resolve_locally;
using traintrace::Resolved;
using traintrace::ShortText;
using traintrace::Storage;
using traintrace::storage_of;

constexpr const char* kMounts =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "23 22 0:21 / /proc rw shared:2 - proc proc rw\n"
    "30 22 0:30 / /dev/shm rw shared:3 - tmpfs tmpfs rw\n"
    "40 22 0:40 / /home rw shared:4 master:1 - nfs4 server:/home rw,addr=10.0.0.1\n"
    "41 40 8:2 / /home/local rw - xfs /dev/sdb1 rw\n"
    "42 22 0:42 / /mnt/my\\040disk rw - fuse.sshfs me@there:/ rw\n"
    "43 22 0:43 / /lustre rw - lustre 10.0.0.2@tcp:/fs rw\n"
    "44 22 0:44 / /auto rw - autofs /etc/auto.master rw\n"
    "45 44 0:45 / /auto/data rw - ext4 /dev/sdc1 rw\n"
    "46 22 0:46 / /cover rw - nfs server:/x rw\n"
    "47 22 0:47 / /cover rw - ext4 /dev/sdd1 rw\n"
    "48 22 0:48 / /rootless rw - fuse.fuse-overlayfs fuse-overlayfs rw\n"
    "49 22 0:49 / /ntfs rw - fuseblk /dev/sde1 rw\n";

TEST(Storage, IsThatOfTheLongestMountPoint) {
  EXPECT_EQ(storage_of(kMounts, "/"), Storage::kLocal);
  EXPECT_EQ(storage_of(kMounts, "/tmp/traces"), Storage::kLocal);
  EXPECT_EQ(storage_of(kMounts, "/home"), Storage::kNetwork);
  EXPECT_EQ(storage_of(kMounts, "/home/me/traces"), Storage::kNetwork);
  EXPECT_EQ(storage_of(kMounts, "/homes"), Storage::kLocal);
  EXPECT_EQ(storage_of(kMounts, "/home/local/traces"), Storage::kLocal);
  EXPECT_EQ(storage_of(kMounts, "/home/locals"), Storage::kNetwork);
  EXPECT_EQ(storage_of(kMounts, "/dev/shm/x"), Storage::kMemory);
  EXPECT_EQ(storage_of(kMounts, "/mnt/my disk/x"), Storage::kNetwork);
  EXPECT_EQ(storage_of(kMounts, "/lustre/run"), Storage::kNetwork);
}

TEST(Storage, OfWhatIsMountedOnDemandIsTakenForNetwork) {
  EXPECT_EQ(storage_of(kMounts, "/auto/unknown"), Storage::kNetwork);
  EXPECT_EQ(storage_of(kMounts, "/auto/data/x"), Storage::kLocal);
}

TEST(Storage, LaterMountsHideEarlierOnes) {
  EXPECT_EQ(storage_of(kMounts, "/cover/x"), Storage::kLocal);
}

TEST(Storage, SomeFuseIsLocal) {
  EXPECT_EQ(storage_of(kMounts, "/rootless/x"), Storage::kLocal);
  EXPECT_EQ(storage_of(kMounts, "/ntfs/x"), Storage::kLocal);
}

TEST(Storage, MalformedTextIsHarmless) {
  for (const char* text : {"", "\n", "22", "22 1 8:1 / / rw - ", "22 1 8:1 / / rw -",
                           "a b c d e f g h", "22 1 8:1 / \\04 rw - nfs x\n"}) {
    EXPECT_EQ(storage_of(text, "/some/where"), Storage::kLocal) << text;
  }
}

struct Link {
  explicit Link(const std::string& target) {
    folder = std::filesystem::temp_directory_path() / ("storage-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    std::filesystem::create_symlink(target, folder / "link");
  }
  ~Link() { std::filesystem::remove_all(folder); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  std::filesystem::path folder;
};

TEST(Storage, LinksAreFollowedUpToTheNetwork) {
  {
    const Link link("/home/me");
    ShortText resolved;
    EXPECT_EQ(Resolved::kOverNetwork,
              resolve_locally(kMounts, (link.folder / "link/traces").c_str(), resolved));
  }
  {
    const Link link("../lib/./x");
    ShortText resolved;
    ASSERT_EQ(Resolved::kLocally,
              resolve_locally(kMounts, (link.folder / "link/traces").c_str(), resolved));
    EXPECT_EQ(std::string(resolved.c_str()), link.folder.parent_path() / "lib/x/traces");
  }
  {
    const Link link("link");  // to itself
    ShortText resolved;
    EXPECT_EQ(Resolved::kInCircles,
              resolve_locally(kMounts, (link.folder / "link").c_str(), resolved));
  }
}

TEST(Storage, PathsAreTidied) {
  ShortText resolved;
  ASSERT_EQ(Resolved::kLocally, resolve_locally(kMounts, "//does-not-exist/./a/../b//", resolved));
  EXPECT_STREQ(resolved.c_str(), "/does-not-exist/b");
  ShortText root;
  ASSERT_EQ(Resolved::kLocally, resolve_locally(kMounts, "/..", root));
  EXPECT_STREQ(root.c_str(), "/");
  ShortText too_long;
  EXPECT_EQ(Resolved::kTooLong,
            resolve_locally(kMounts, ("/" + std::string(5000, 'x')).c_str(), too_long));
}

TEST(Storage, TextIsCutAtItsEnd) {
  char buffer[8];
  traintrace::Text text(buffer, sizeof buffer);
  text << "abc" << -120 << "defg";
  EXPECT_STREQ(text.c_str(), "abc-120");
  EXPECT_FALSE(text.whole());
  traintrace::Text measure(nullptr, 0);
  measure << "abc" << int64_t{INT64_MIN};
  EXPECT_EQ(measure.length(), 3u + 20);
}

}  // namespace
