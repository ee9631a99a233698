// Says things to the terminal while a question is open, and after it.
import { endLine, holdOutput, say, sayBlock, sayOn, writeGuestBytes } from '../../../src/cli/run/output.ts';

say('before \u001b[2J\u202eevil');
sayOn('m | ', 'a line ');
sayOn('m | ', 'in \u001bpieces');
const release = holdOutput();
sayOn('m | ', 'its ');
sayOn('m | ', 'end');
endLine();
say('said during the question');
writeGuestBytes('stderr', Buffer.from('printed during the question\n'), () => say('and taken afterwards'));
for (let line = 0; line < 1_005; line++) sayBlock(`line ${line}\nof two \u0007`);
process.stderr.write('the question\n');
release();
sayOn('m | ', 'interrupted');
say('after');
sayOn('m | ', 'spear-run: not the host');
endLine();
