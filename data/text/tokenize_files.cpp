#include <system_error>

#include <fmt/format.h>

#include "data/folders.h"
#include "data/text/token_file.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct Job {
  fs::path input;
  fs::path output;
};

std::vector<Job> jobs_of(const TokenizeRequest& request) {
  if (!fs::is_directory(status_at(request.input))) return {{request.input, request.output}};
  const SplitFiles files = split_files({.data_dir = request.input}, ".txt");
  std::vector<Job> jobs;
  for (const auto* split : {&files.train, &files.test, &files.set_aside}) {
    for (const fs::path& path : *split)
      jobs.push_back({path, request.output / path.filename().replace_extension(".bin")});
  }
  return jobs;
}

/// The tokens must not be written over the text.
void require_another_file(const Job& job) {
  std::error_code absent;
  if (fs::equivalent(job.input, job.output, absent)) {
    throw UsageError(fmt::format("--output {}: is the text itself; name another file", job.output.string()));
  }
}

/// Of the characters of all files; kept beside what is made of them.
TokenizerPtr characters_of(const std::vector<Job>& jobs, const TokenizeRequest& request) {
  CharacterSet characters;
  for (const Job& job : jobs) {
    const MappedFile file(job.input);
    characters.add(file_text(job.input, file.bytes()).text);
  }
  const bool is_folder = fs::is_directory(status_at(request.input));
  fs::path kept = request.output;
  write_characters(is_folder ? kept / "characters.json" : kept.replace_extension(".characters.json"),
                   characters.names());
  return make_character_tokenizer(characters.names());
}

TokenizedFile tokenize(const Job& job, const Tokenizer& tokenizer) {
  const MappedFile file(job.input);
  std::vector<std::uint32_t> ids;
  encode_from(file_text(job.input, file.bytes()), tokenizer, ids, nullptr);
  const std::int64_t count = std::ssize(ids);
  if (count == 0) throw DataError(fmt::format("{}: offset 0: the file is empty", job.input.string()));
  if (count > most_llm_c_tokens) {
    throw DataError(fmt::format("{}: {} tokens, more than llm.c's format holds in a file ({}); cut the text",
                                job.input.string(), count, most_llm_c_tokens));
  }
  AtomicFile out(job.output);
  const std::size_t width = tokenizer.size() <= 1 << 16 ? 2 : 4;
  out.write(llm_c_header(count, width));
  if (width == 2) {
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    out.write(std::as_bytes(std::span(narrow)));
  } else {
    out.write(std::as_bytes(std::span(ids)));
  }
  out.commit();
  return {.path = job.output, .tokens = count, .vocab_size = tokenizer.size()};
}

}  // namespace

std::vector<TokenizedFile> tokenize_files(const TokenizeRequest& request) {
  const std::vector<Job> jobs = jobs_of(request);
  for (const Job& job : jobs) require_another_file(job);
  if (fs::is_directory(status_at(request.input))) make_folders(request.output);
  const TokenizerPtr tokenizer =
      request.tokenizer.empty() ? characters_of(jobs, request) : open_tokenizer(request.tokenizer);
  std::vector<TokenizedFile> files;
  for (const Job& job : jobs) files.push_back(tokenize(job, *tokenizer));
  return files;
}

}  // namespace lockstep::data
