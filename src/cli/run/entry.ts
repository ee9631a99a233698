import { bootEarly } from '../../run/threads/guest-worker.ts';
import { crashWithoutSecrets } from '../crash-output.ts';
import { exitCodes } from '../exit-codes.ts';

/** With these no guest has a thread of its own, or none is run at all. */
const OTHERWISE = /^(?:-h|--help|-V|--version|--dry-run|--each|--isolation)(?:=|$)/;

crashWithoutSecrets('spear-run', exitCodes.usage);
const argv = process.argv.slice(2);
if (argv.length > 0 && !argv.some((word) => OTHERWISE.test(word))) bootEarly();
// Everything is closed and all output is written when main returns; what is left are libraries' idle timers, and a
// thread that was not needed.
import('./command.ts').then(({ main }) => main(argv)).then((code) => process.exit(code));
