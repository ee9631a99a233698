/** WASI preview 1 numbers its errors in its own way. */
export const wasi = { SUCCESS: 0, BADF: 8, FAULT: 21, INVAL: 28, IO: 29, NOSYS: 52, SPIPE: 70 } as const;
