#pragma once

namespace caisson::guest {

// The same program as an ordinary process of a box: it moves files in and out for the owner, as the
// payload's user, and so reaches what a payload reaches and nothing else. Descriptors 0 and 1 are
// the owner's.
//
//   files get PATH          the content of a regular file
//   files put PATH MODE     a file, with its parents, replaced as a whole or not at all
//   files list PATH         the entries of a directory
//   files remove PATH       a file, or a directory with all that is in it
//   files usage PATH...     what is below directories
//
// The answer begins with a line: "ok SIZE" or "error ERRNO"; before it there may be lines "busy".
// The content of `put` comes in pieces, each after its size as four bytes, least first; a piece of
// none is the end, and without it nothing is kept. An entry of `list` is "TYPE MODE SIZE SECONDS
// NAME" and a NUL, TYPE being one of f, d, l, o. `usage` gives a line for each directory: "BYTES
// FILES ERRORS" as they are on the disk, or "none".
int run_files(int argc, char** argv);

}  // namespace caisson::guest
