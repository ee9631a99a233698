#!/usr/bin/env node
// Plain enough for any Node to read: an old one gets a sentence instead of a syntax error.
var major = parseInt(process.versions.node, 10);
if (major < 24) {
  process.stderr.write('spear-run: needs Node 24 or newer, this is ' + process.version + '\n');
  process.exitCode = 125;
} else {
  import('../dist/spear-run.js');
}
