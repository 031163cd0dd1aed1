// States of recurrent models: before the first step from a data set, behind the last from `trainer predict`.
#include "tests/cluster/recurrent_states.h"

namespace lockstep::tests {
namespace {

States final_states(const RecurrentCase& of, const std::string& file) {
  States states{floats_in(file, "h_n")};
  if (of.kinds == 2) states.push_back(floats_in(file, "c_n"));
  return states;
}

void expect_data_error(const Words& words, const std::string& said) {
  Program program(Words{TRAINER_PROGRAM} + words);
  CHECK(program.wait_for_end() == 3);
  CHECK_THAT(program.output(), contains(said));
}

}  // namespace

TEST_CASE("a sequence in two parts, with the states between them, gives the bits of the whole") {
  for (const RecurrentCase& of : {rnn_states, lstm_states}) {
    INFO(of.model);
    const TemporaryFolder folder;
    const RecurrentData data(of);
    const auto whole = data.file(folder, "whole", 0, steps, &data.first);
    train(2, recurrent_options(of) + data_in(whole) + Words{"--eval-every=0"}, folder / "run");
    const std::string run = (folder / "run").string();
    const auto predict = [&](const char* name, int ranks, const std::string& file) {
      return predicted(folder, name, ranks,
                       {run, "--dataset=tensors", "--data-dir=" + file, "--batch-size=8"});
    };
    const std::string of_whole = predict("of_whole", 1, whole);
    CHECK(contents(predict("by_two", 2, whole)) == contents(of_whole));
    const auto begin = data.file(folder, "begin", 0, steps / 2, &data.first);
    const States between = final_states(of, predict("of_begin", 1, begin));
    const auto end = data.file(folder, "end", steps / 2, steps, &between);
    CHECK(contents(predict("of_end", 1, end)) == contents(of_whole));

    const auto alone = data.file(folder, "alone", steps / 2, steps);
    CHECK(floats_in(predict("of_alone", 1, alone), "logits") != floats_in(of_whole, "logits"));
    CHECK(SafetensorsFile(of_whole).tensors().size() == 1 + static_cast<std::size_t>(of.kinds));
  }
}

TEST_CASE("lines of predict have the states of the file by layer; other samples' lines have none") {
  const TemporaryFolder folder;
  const RecurrentData data(lstm_states);
  const auto file = data.file(folder, "data.safetensors", 0, steps);
  train(1, recurrent_options(lstm_states) + data_in(file) + Words{"--eval-every=0"}, folder / "run");
  const std::string run = (folder / "run").string();
  const auto lines = lines_of(output_of(1, {"predict", run}));
  REQUIRE(lines.size() == static_cast<std::size_t>(sequences));
  const std::string written = predicted(folder, "states", 1, {run});
  for (const char* name : {"h_n", "c_n"}) {
    const std::vector<float> all = floats_in(written, name);
    CHECK(SafetensorsFile(written).find(name)->shape ==
          Shape{sequences, lstm_states.layers, lstm_states.hidden});
    std::vector<float> of_lines;
    for (const auto& line : lines) {
      REQUIRE(line.at(name).size() == static_cast<std::size_t>(lstm_states.layers));
      for (const auto& layer : line.at(name)) {
        for (const float value : layer.get<std::vector<float>>()) of_lines.push_back(value);
      }
    }
    CHECK(of_lines == all);
  }
  const Words synthetic{"--dataset=synthetic", "--samples=3", "--eval-samples=3", "--seq-len=5"};
  for (const auto& line : lines_of(output_of(1, Words{"predict", run} + synthetic))) {
    CHECK(line.contains("class"));
    CHECK_FALSE(line.contains("h_n"));
  }
  const std::vector<float> numbers(3 * 4, 1.0F);
  const auto plain = file_of(
      folder, "plain.safetensors",
      {{"inputs", DType::f32, {3, 4}, std::as_bytes(std::span(numbers))}, tensor("targets", {3}, {0, 1, 2})});
  train(1, Words{"--model=mlp", "--model-args=num_classes=3", "--max-steps=1"} + data_in(plain),
        folder / "mlp");
  for (const auto& line : lines_of(output_of(1, {"predict", (folder / "mlp").string()})))
    CHECK_FALSE(line.contains("h_n"));
}

TEST_CASE("training and evaluation start from the states: any ranks as one, resumed as never stopped") {
  for (const RecurrentCase& of : {rnn_states, lstm_states}) {
    INFO(of.model);
    const TemporaryFolder folder;
    const RecurrentData data(of);
    const auto given = data.file(folder, "given", 0, steps, &data.first);
    States zeros = data.first;
    for (auto& kind : zeros) std::fill(kind.begin(), kind.end(), 0.0F);
    const auto from_zeros = data.file(folder, "zeros", 0, steps, &zeros);
    const auto without = data.file(folder, "without", 0, steps);
    const Words options = recurrent_options(of) + Words{"--global-batch=8", "--eval-every=1"};
    const auto whole = train(1, options + data_in(given), folder / "whole");
    const auto plain = train(1, options + data_in(without), folder / "plain");
    CHECK(whole["weights_sha256"] != plain["weights_sha256"]);
    CHECK(train(1, options + data_in(from_zeros), folder / "zeros_run")["weights_sha256"] ==
          plain["weights_sha256"]);

    train(2, options + data_in(given), folder / "two");
    train(2, options + data_in(given) + Words{"--accumulate-steps=2"}, folder / "parts");
    for (const char* run : {"two", "parts"}) {
      const std::vector<double> expected = losses_of(folder / "whole");
      const std::vector<double> losses = losses_of(folder / run);
      REQUIRE(losses.size() == expected.size());
      // Sums of the same terms in another order.
      for (std::size_t step = 0; step < losses.size(); ++step)
        CHECK(losses[step] == Approx(expected[step]).epsilon(2e-5));
    }

    const Words kept = options + data_in(given) + Words{"--checkpoint-every=3"};
    train(1, kept + Words{"--max-steps=3"}, folder / "resumed");
    CHECK(train(1, kept + Words{"--resume=auto"}, folder / "resumed")["weights_sha256"] ==
          whole["weights_sha256"]);

    const std::string run = (folder / "whole").string();
    const auto loss_on = [&](const std::string& file) {
      return lines_of(output_of(1, {"eval", run, "--data-dir", file})).at(0)["loss"].get<double>();
    };
    CHECK(loss_on(given) == Approx(whole["eval"]["loss"].get<double>()).epsilon(1e-6));
    // Behind one step, where they are not forgotten.
    const auto short_given = data.file(folder, "short_given", 0, 1, &data.first);
    const auto short_without = data.file(folder, "short_without", 0, 1);
    CHECK(std::abs(loss_on(short_given) - loss_on(short_without)) > 1e-3);
  }
}

TEST_CASE("sequences of numbers start from states, too, and in bf16") {
  const TemporaryFolder folder;
  const RecurrentData data(lstm_states);
  std::vector<float> numbers(sequences * steps * 3);
  Philox(1, 1).normals(0, numbers);
  const Shape of_states{sequences, lstm_states.layers, lstm_states.hidden};
  std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", DType::f32, {sequences, steps, 3}, std::as_bytes(std::span(numbers))},
      tensor("targets", {sequences}, data.classes)};
  const auto without = file_of(folder, "without.safetensors", tensors);
  tensors.push_back({"h0", DType::f32, of_states, std::as_bytes(std::span(data.first[0]))});
  tensors.push_back({"c0", DType::f32, of_states, std::as_bytes(std::span(data.first[1]))});
  const auto file = file_of(folder, "numbers.safetensors", tensors);
  const Words options = recurrent_options(lstm_states) + data_in(file) + Words{"--eval-every=0"};
  train(2, options, folder / "run");
  train(2, options + Words{"--amp=bf16"}, folder / "narrow");
  train(2, recurrent_options(lstm_states) + data_in(without) + Words{"--eval-every=0"}, folder / "zeros");
  CHECK(losses_of(folder / "zeros").front() != losses_of(folder / "run").front());
  const std::vector<double> expected = losses_of(folder / "run");
  const std::vector<double> narrow = losses_of(folder / "narrow");
  REQUIRE(narrow.size() == expected.size());
  // bf16 has 8 bits; states of 1 and gates make losses of about 2.
  for (std::size_t step = 0; step < narrow.size(); ++step)
    CHECK(narrow[step] == Approx(expected[step]).margin(0.02));
  const std::string run = (folder / "run").string();
  const auto exact = states_in(predicted(folder, "exact", 1, {run}));
  const auto rounded = states_in(predicted(folder, "rounded", 1, {run, "--amp=bf16"}));
  REQUIRE(rounded.size() == exact.size());
  // Rounded at each of 12 steps.
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(rounded[i] == Approx(exact[i]).margin(0.05));
  CHECK(rounded != exact);
}

TEST_CASE("states that a model does not take end with 3, the file, the tensor and what is wanted") {
  const TemporaryFolder folder;
  const RecurrentData data(lstm_states);
  const States h_alone{data.first[0]};
  const auto one = data.file(folder, "one", 0, steps, &h_alone);
  const auto both = data.file(folder, "both", 0, steps, &data.first);
  expect_data_error(recurrent_options(lstm_states) + data_in(one),
                    one + ": there is 'h0' but no 'c0', which must be f32 26x2x10 (samples, layers, hidden)");
  expect_data_error(recurrent_options(rnn_states) + data_in(both),
                    both + ": 'c0': this model has no cells and takes 'h0' alone, f32 26x1x12");
  expect_data_error(recurrent_options(rnn_states) + data_in(one),
                    one + ": 'h0' is f32 26x2x10, must be f32 26x1x12 (samples, layers, hidden)");
  expect_data_error(Words{"--model=transformer"} + data_in(one),
                    one + ": 'h0' is a state before the first step, which this model does not take");
  const auto plain = data.file(folder, "plain", 0, steps);
  const auto run = (folder / "run").string();
  train(1, recurrent_options(lstm_states) + data_in(plain) + Words{"--max-steps=1"}, run);
  expect_data_error({"predict", run, "--dataset=tensors", "--data-dir=" + one}, "no 'c0'");
  const auto unseen = file_of(folder, "unseen.safetensors", {tensor("inputs", {2, 2}, {1, 2, 3, 4})});
  CHECK(lines_of(output_of(1, {"predict", run, "--data-dir", unseen})).at(1).contains("c_n"));
}

}  // namespace lockstep::tests
