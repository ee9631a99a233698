#!/usr/bin/env node
// Nothing here is newer than Node 6: an old one is told what it lacks instead of failing on syntax.
if (Number.parseInt(process.versions.node, 10) < 24) require('./old-node.cjs')('spearlet', 2);
else require('../dist/spearlet.cjs');
