import { bootEarly } from '../../runtime/host/guest-worker.ts';
import { exitCodes } from '../exit-codes.ts';
import { crashWithoutSecrets } from '../run-program.ts';

/** With these flags no guest needs its own thread. */
const NO_THREAD = /^(?:-h|--help|-V|--version|--dry-run|--isolation)(?:=|$)/;

crashWithoutSecrets('spear-run', exitCodes.usage);
const argv = process.argv.slice(2);
if (argv.length > 0 && !argv.some((word) => NO_THREAD.test(word))) bootEarly();
// When main returns, everything is closed and all output is written; only idle timers of libraries and an unused thread
// are left.
import('./main.ts').then(({ main }) => main(argv)).then((code) => process.exit(code));
