"""Media as every stage opens them: decoders and clocks, frames and pictures, what their files say of themselves."""
