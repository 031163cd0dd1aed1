#pragma once

#include "runtime/options/option_readers.h"
#include "runtime/options/options.h"

/// What a user named, and the run would pass over without a word, or its config.ini could not give back.
/// UsageError says which, and what to give.
namespace lockstep::runtime {

/// An option that the optimizer or the schedule of the learning rate does not read.
void require_read_by_optimizer(const Options& options);

/// The same of the data set. A plugin's may read all of them.
void require_read_by_dataset(const Options& options);

/// The same of a command. A config file may be meant for others, too: it counts on the command line alone.
void require_read_by_command(const OptionReader& command, const Options& options);

/// A value of several lines, or with blanks at its ends. Prompts, which no config.ini has, may be any text.
void require_fit_for_config_file(const Options& options);

/// --batch-size beside --global-batch.
void require_one_batch_size(const Options& options);

/// One list of transforms that normalises otherwise than the other, which nobody named.
void require_same_scale(const Options& options);

}  // namespace lockstep::runtime
